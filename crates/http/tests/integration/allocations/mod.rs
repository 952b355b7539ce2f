//! Tests that exchanges on warm connections allocate nothing.

mod h1_client;
mod h1_server;
mod h2_client;
mod h2_server;
mod h3;
