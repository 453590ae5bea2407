//! The server over sockets.
