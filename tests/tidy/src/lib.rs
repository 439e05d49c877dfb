//! Checks of the project itself: dependency directions, purity of the core, documents.
