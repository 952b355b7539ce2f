//! What a server answers.
