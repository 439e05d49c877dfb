//! One way to speak TLS to a pod whose certificate nobody vouches for.
