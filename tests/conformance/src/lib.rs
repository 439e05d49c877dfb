//! The same requests to the embedded API and to the real one, answers compared.
