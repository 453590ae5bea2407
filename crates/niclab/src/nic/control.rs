//! The socket that a card is told things by, and who speaks to it.
//!
//! The socket takes lines. Each is a command, and is answered by one line: a JSON object that has
//! `error` where the command was not carried out.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use niclab_card::{Card, Counters};
use niclab_nic::rule::session::Record;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::{capture, programmed, rss, table};
use crate::failure::Failure;
use crate::rules;

/// Longest command over the socket, bytes.
const COMMAND_LEN_MAX: usize = 1 << 20;

/// How long the other side of the socket may take.
const PATIENCE: Duration = Duration::from_secs(5);

const COMMANDS: &str =
    "application, capture, counters, program, rss, stop, table, or a flow command";

/// Most that are connected at once; more wait until one of them has gone.
const CLIENTS_MAX: usize = 16;

/// The socket of a card that runs. It goes with this.
pub(super) struct Control {
    path: PathBuf,
    /// Device and number of the file that was made.
    file: (u64, u64),
    listener: UnixListener,
    clients: Vec<Client>,
}

/// One who is connected, and has not said all of his command yet.
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
    since: Instant,
}

impl Drop for Control {
    fn drop(&mut self) {
        // Not what another has put there since.
        if identity(&self.path).is_ok_and(|now| now == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and number of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = std::fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// Whether a card that was killed has left its socket there.
fn is_left(path: &Path) -> bool {
    let is_socket = |file: std::fs::Metadata| file.file_type().is_socket();
    std::fs::symlink_metadata(path).is_ok_and(is_socket)
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

impl Control {
    /// Listens there. What a killed card left is taken away; one that runs is not disturbed.
    pub(super) fn bind(path: &Path) -> Result<Control, Failure> {
        let refused = |reason: String| Failure::Control { path: path.to_path_buf(), reason };
        let bind = || UnixListener::bind(path);
        let listener = match bind() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                if !is_left(path) {
                    let reason = "it is there already: another card, or a file; choose another \
                                  path for --control";
                    return Err(refused(reason.to_owned()));
                }
                std::fs::remove_file(path).map_err(|error| refused(error.to_string()))?;
                bind()
            }
            bound => bound,
        };
        let listener = listener.map_err(|error| {
            refused(format!("{error}; --control takes the path of a socket to be made"))
        })?;
        listener.set_nonblocking(true).map_err(|error| refused(error.to_string()))?;
        let file = identity(path).map_err(|error| refused(error.to_string()))?;
        Ok(Control { path: path.to_path_buf(), file, listener, clients: Vec::new() })
    }

    /// Answers who says something within so much time; whether the card is to end. Who says nothing
    /// holds up nobody, and is let go after a while.
    pub(super) fn serve(&mut self, card: &mut Card, patience: Duration) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        let streams = self.clients.iter().map(|client| client.stream.as_fd());
        let is_full = self.clients.len() == CLIENTS_MAX;
        let door = (!is_full).then(|| self.listener.as_fd());
        let mut asked: Vec<PollFd<'_>> =
            streams.chain(door).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // Whatever it says, all are looked at.
        let _ = poll(&mut asked, Some(&timeout));
        if !is_full && let Ok((stream, _)) = self.listener.accept() {
            let client = Client { stream, said: Vec::new(), since: Instant::now() };
            self.clients.push(client);
        }
        let mut is_end = false;
        self.clients.retain_mut(|client| match client.listen() {
            Ok(None) => client.since.elapsed() < PATIENCE,
            // Who goes before it has its answer does not want it.
            Ok(Some(command)) => {
                is_end |= client.answer(card, command).unwrap_or(false);
                false
            }
            Err(_) => false,
        });
        is_end
    }
}

impl Client {
    /// The command, once all of it has been said; why it is none, where it is too long.
    fn listen(&mut self) -> io::Result<Option<Result<String, String>>> {
        self.stream.set_nonblocking(true)?;
        let mut piece = [0; 4_096];
        loop {
            let count = match self.stream.read(&mut piece) {
                // It has gone without a whole line.
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            self.said.extend_from_slice(&piece[..count]);
            if self.said.len() > COMMAND_LEN_MAX {
                return Ok(Some(Err(format!("a command has {COMMAND_LEN_MAX} bytes at most"))));
            }
            if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8(self.said[..end].to_vec());
                return Ok(Some(line.map_err(|_| "a command is text in UTF-8".to_owned())));
            }
        }
    }

    /// Carries out a command and says what came of it; whether the card is to end.
    fn answer(&self, card: &mut Card, command: Result<String, String>) -> io::Result<bool> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        let (answer, is_end) = match command {
            Ok(line) => carry_out(card, line.trim()),
            Err(error) => (json!({ "error": error }), false),
        };
        writeln!(&self.stream, "{answer}")?;
        Ok(is_end)
    }
}

/// Carries out a command: what came of it, and whether the card is to end.
fn carry_out(card: &mut Card, line: &str) -> (Value, bool) {
    let answer = match line.split_whitespace().next() {
        Some("counters") if line == "counters" => json!(card.counters()),
        Some("stop") if line == "stop" => return (json!({ "done": ["the card ends"] }), true),
        Some("flow" | "set") => flow(card, line),
        Some("capture") => capture::answer(card, line),
        Some("application" | "program" | "table") => programmed::answer(card, line),
        Some("rss") => rss::answer(card, line),
        Some(word) => json!({ "error": format!("`{word}` is no command: {COMMANDS}") }),
        None => json!({ "error": format!("no command: {COMMANDS}") }),
    };
    (answer, false)
}

fn flow(card: &mut Card, text: &str) -> Value {
    match card.apply(text) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(records) => {
            let says = |(port, record): &(u16, Record)| {
                let told = rules::told(record).unwrap_or_else(|| done(record));
                format!("port {port}: {told}")
            };
            json!({ "done": records.iter().map(says).collect::<Vec<String>>() })
        }
    }
}

/// What was done by a command that says nothing else.
fn done(record: &Record) -> String {
    match record {
        Record::Created { rule } => format!("rule {rule} created"),
        Record::Destroyed { rule } => format!("rule {rule} destroyed"),
        Record::Updated { rule } => format!("rule {rule} updated"),
        Record::Validated => "the rule can be created".to_owned(),
        _ => "done".to_owned(),
    }
}

/// Tells a card that runs a command, and prints what it says.
pub(super) fn ctl(path: &Path, is_json: bool, command: &str) -> Result<(), Failure> {
    let refused = |error: io::Error| Failure::Control {
        path: path.to_path_buf(),
        reason: format!("{error}; no card listens there: niclab nic --control {}", path.display()),
    };
    let stream = UnixStream::connect(path).map_err(refused)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
    writeln!(&stream, "{}", command.replace('\n', " ")).map_err(refused)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(refused)?;
    let odd = || Failure::Control {
        path: path.to_path_buf(),
        reason: "what listens there is no card".to_owned(),
    };
    let answer: Value = serde_json::from_str(&line).map_err(|_| odd())?;
    if is_json {
        write!(stdout(), "{line}")?;
    }
    if let Some(reason) = answer["error"].as_str() {
        return Err(Failure::Refused { reason: reason.to_owned() });
    }
    if is_json {
        return Ok(());
    }
    match answer["done"].as_array() {
        Some(lines) => {
            for line in lines.iter().filter_map(Value::as_str) {
                writeln!(stdout(), "{line}")?;
            }
        }
        None => {
            let counters: Counters = serde_json::from_value(answer).map_err(|_| odd())?;
            write!(stdout(), "{}", table(&counters))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use niclab_card::{CardConfig, PortName};

    use super::*;

    /// A socket, a card behind it, and what a client has of it.
    struct Bench {
        control: Control,
        card: Card,
        path: PathBuf,
        _directory: tempfile::TempDir,
    }

    fn bench() -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("out.pcap");
        let port: PortName = format!("pcap:out={}", trace.display()).parse().unwrap();
        let card = Card::start(&CardConfig::new(vec![port], 1, vec![0]), "").unwrap();
        let path = directory.path().join("card");
        Bench { control: Control::bind(&path).unwrap(), card, path, _directory: directory }
    }

    impl Bench {
        fn connected(&self) -> UnixStream {
            UnixStream::connect(&self.path).unwrap()
        }

        /// Serves until this client has its answer.
        fn answer(&mut self, client: &mut UnixStream) -> String {
            let until = Instant::now() + PATIENCE / 2;
            client.set_nonblocking(true).unwrap();
            let mut answer = String::new();
            while !answer.ends_with('\n') {
                assert!(Instant::now() < until, "no answer but `{answer}`");
                assert!(!self.control.serve(&mut self.card, Duration::from_millis(5)));
                let _ = client.read_to_string(&mut answer);
            }
            answer
        }
    }

    #[test]
    fn who_says_nothing_holds_up_nobody() {
        let mut bench = bench();
        let _silent: Vec<UnixStream> = (0..3).map(|_| bench.connected()).collect();
        let mut client = bench.connected();
        client.write_all(b"flow list 0\n").unwrap();
        assert!(bench.answer(&mut client).contains("done"));
        assert_eq!(bench.control.clients.len(), 3);
    }

    #[test]
    fn a_command_is_carried_out_once_its_line_is_whole_and_not_before() {
        let mut bench = bench();
        let create = b"flow create 0 ingress pattern eth / end actions drop / end\n";
        let mut client = bench.connected();
        client.write_all(&create[..20]).unwrap();
        bench.control.serve(&mut bench.card, Duration::from_millis(5));
        client.write_all(&create[20..]).unwrap();
        assert!(bench.answer(&mut client).contains("rule 0 created"));
        // Without its end it is no command, whole as it looks.
        let mut gone = bench.connected();
        gone.write_all(b"flow flush 0").unwrap();
        drop(gone);
        let mut long = bench.connected();
        long.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let writes = std::thread::spawn(move || {
            let _ = long.write_all(&vec![b'x'; COMMAND_LEN_MAX + 1]);
            let mut answer = String::new();
            let _ = long.read_to_string(&mut answer);
            answer
        });
        while !writes.is_finished() {
            bench.control.serve(&mut bench.card, Duration::from_millis(5));
        }
        assert!(writes.join().unwrap().contains("1048576 bytes at most"));
        let mut client = bench.connected();
        client.write_all(b"flow list 0\n").unwrap();
        assert!(bench.answer(&mut client).contains("rule 0"), "it is still there");
    }

    #[test]
    fn a_file_that_is_no_socket_stays_and_one_of_another_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules");
        fs::write(&path, "precious").unwrap();
        let refused = Control::bind(&path).err().unwrap().to_string();
        assert!(refused.contains("it is there already"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        // What is put in the place of the socket is not taken away with it.
        let socket = directory.path().join("card");
        let control = Control::bind(&socket).unwrap();
        fs::rename(&path, &socket).unwrap();
        drop(control);
        assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
    }
}
