//! Servers with scripted answers.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Lets a server run while `with` has its address: each of its connections is served by `serve`,
/// which gets the connection's number, on a thread of its own.
pub fn served<T>(serve: impl Fn(usize, TcpStream) + Sync, with: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let (stop, serve) = (AtomicBool::new(false), &serve);
    thread::scope(|scope| {
        let (listener, stop) = (&listener, &stop);
        scope.spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        scope.spawn(move || serve(number, stream));
                        number += 1;
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    Err(e) => panic!("{e}"),
                }
            }
        });
        let _stop = SetAtEnd(stop);
        with(listener.local_addr().unwrap())
    })
}

/// Is set when this goes, in a test that fails too.
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A request as a scripted memcached reads it.
#[derive(Clone, Debug)]
pub struct Command {
    pub is_get: bool,
    pub key: String,
    pub value: Vec<u8>,
}

/// The reaction of a scripted server to a request.
pub enum Reply {
    Say(Vec<u8>),
    /// Closes the connection after having said this.
    Close(Vec<u8>),
}

/// Serves memcached's text protocol on one connection: `reply` gets the number of each request, and
/// the request.
pub fn memcached(stream: TcpStream, mut reply: impl FnMut(usize, Command) -> Reply) {
    let mut out = stream.try_clone().unwrap();
    let mut inflow = BufReader::new(stream);
    for number in 0.. {
        let mut line = String::new();
        if !matches!(inflow.read_line(&mut line), Ok(1..)) {
            return;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command =
            Command { is_get: words[0] == "get", key: words[1].to_owned(), value: Vec::new() };
        if !command.is_get {
            assert_eq!((words[0], words[2], words[3]), ("set", "0", "0"), "{line}");
            command.value.resize(words[4].parse::<usize>().unwrap() + 2, 0);
            if inflow.read_exact(&mut command.value).is_err() {
                return;
            }
            assert!(command.value.ends_with(b"\r\n"));
            command.value.truncate(command.value.len() - 2);
        }
        let message = match reply(number, command) {
            Reply::Say(message) => out.write_all(&message),
            Reply::Close(message) => {
                let _ = out.write_all(&message);
                return;
            }
        };
        if message.is_err() {
            return;
        }
    }
}

/// The answer of a memcached that has stored `value` under this key.
pub fn found(key: &str, value: &[u8]) -> Vec<u8> {
    let head = format!("VALUE {key} 0 {}\r\n", value.len());
    [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
}
