//! The socket that a card is told things by, and who speaks to it.
//!
//! The socket takes lines. Each is a command, and is answered by one line: a JSON object that has
//! `error` where the command was not carried out.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
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
use crate::output::stdout;
use crate::rules;

/// Longest command over the socket, bytes, and most that is held of all that are being said: a file
/// of tables for a million entries.
const COMMAND_LEN_MAX: usize = 64 << 20;

/// Bytes of a command that need no room of all: however slowly somebody says a long one, others are
/// answered.
const OWN_LEN: usize = 4_096;

/// Most bytes of an answer that is made of what tables have, and most that wait to be taken by all
/// who were answered, if more than one of them has some left: who looks for more can ask again.
pub(super) const ANSWER_LEN_MAX: usize = COMMAND_LEN_MAX;

/// How long the other side of the socket may be silent, how long it may take to say a command, and
/// how long a card may work on one.
const PATIENCE: Duration = Duration::from_secs(5);
const SAYING: Duration = Duration::from_secs(60);
const WORK: Duration = Duration::from_secs(60);

const COMMANDS: &str =
    "application, capture, counters, program, rss, stop, table, or a flow command";

/// Letters of a word that are shown in an answer which refuses it.
const WORD_SHOWN: usize = 40;

/// What a card can be asked that others change.
const LOOKS: &str = "counters; capture PORT …; rss PORT; flow list or query; program show, \
    register, counter or window; table show; stop";

/// What may be asked by a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Everything.
    Change,
    /// What changes nothing: rules, tables and the program are somebody else's.
    Look,
}

/// Most that are connected at once; more wait until one of them has gone.
const CLIENTS_MAX: usize = 16;

/// The socket of a card that runs. It goes with this.
pub struct Control {
    path: PathBuf,
    may: May,
    /// Most that is held of what is being said, bytes.
    room: usize,
    /// Device and number of the file that was made.
    file: (u64, u64),
    listener: UnixListener,
    clients: Vec<Client>,
}

/// One who is connected, and has not said all of his command, or not taken all of his answer yet.
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
    /// What is left to be taken of the answer is behind so many bytes.
    answer: Vec<u8>,
    taken: usize,
    /// When it came or was answered, and when something was heard or taken last.
    came: Instant,
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
    pub fn bind(path: &Path, may: May) -> Result<Control, Failure> {
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
        let (path, room, clients) = (path.to_path_buf(), COMMAND_LEN_MAX, Vec::new());
        Ok(Control { path, may, room, file, listener, clients })
    }

    /// Answers who says something within so much time; whether the card is to end. Who says
    /// nothing, or takes nothing of a long answer, holds up nobody, and is let go after a while.
    pub fn serve(&mut self, card: &mut Card, patience: Duration) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
        let streams = self.clients.iter().map(|client| (client.stream.as_fd(), client.waits_for()));
        let is_full = self.clients.len() == CLIENTS_MAX;
        let door = (!is_full).then(|| (self.listener.as_fd(), PollFlags::IN));
        let mut asked: Vec<PollFd<'_>> =
            streams.chain(door).map(|(fd, what)| PollFd::from_borrowed_fd(fd, what)).collect();
        // Whatever it says, all are looked at.
        let _ = poll(&mut asked, Some(&timeout));
        if !is_full && let Ok((stream, _)) = self.listener.accept() {
            self.clients.push(Client::new(stream));
        }
        let (mut is_end, may) = (false, self.may);
        let held: usize = self.clients.iter().map(|client| shared(client.said.len())).sum();
        let mut room = self.room - held;
        let mut untaken: usize = self.clients.iter().map(|client| client.untaken()).sum();
        self.clients.retain_mut(|client| {
            if client.untaken() == 0 {
                match client.listen(&mut room) {
                    Ok(None) => return client.is_awake(),
                    Ok(Some(command)) => is_end |= client.answer(card, may, command, &mut untaken),
                    Err(_) => return false,
                }
            }
            // Who goes before it has its answer does not want it.
            client.tell().is_ok() && client.untaken() > 0 && client.is_awake()
        });
        is_end
    }
}

impl Client {
    fn new(stream: UnixStream) -> Client {
        let now = Instant::now();
        Client { stream, said: Vec::new(), answer: Vec::new(), taken: 0, came: now, since: now }
    }

    /// Bytes of its answer that it has not taken yet.
    fn untaken(&self) -> usize {
        self.answer.len() - self.taken
    }

    fn waits_for(&self) -> PollFlags {
        if self.untaken() > 0 { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Whether it has said or taken something in a while, and may go on.
    fn is_awake(&self) -> bool {
        self.since.elapsed() < PATIENCE && self.came.elapsed() < SAYING
    }

    /// The command, once all of it has been said; why it is none, where there is no room for it.
    fn listen(&mut self, room: &mut usize) -> io::Result<Option<Result<String, String>>> {
        self.stream.set_nonblocking(true)?;
        let mut piece = [0; 1 << 16];
        loop {
            let count = match self.stream.read(&mut piece) {
                // It has gone without a whole line.
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let piece = &piece[..count];
            let end = piece.iter().position(|byte| *byte == b'\n');
            let own = &piece[..end.unwrap_or(count)];
            let more = shared(self.said.len() + own.len()) - shared(self.said.len());
            let Some(left) = room.checked_sub(more) else {
                return Ok(Some(Err(too_long())));
            };
            *room = left;
            self.said.extend_from_slice(own);
            self.since = Instant::now();
            if end.is_some() {
                *room += shared(self.said.len());
                let line = String::from_utf8(std::mem::take(&mut self.said));
                return Ok(Some(line.map_err(|_| "a command is text in UTF-8".to_owned())));
            }
        }
    }

    /// Carries out a command and makes its answer; whether the card is to end.
    fn answer(
        &mut self,
        card: &mut Card,
        may: May,
        command: Result<String, String>,
        untaken: &mut usize,
    ) -> bool {
        // Only what changes nothing can be said again.
        let can_wait = command.as_ref().is_ok_and(|line| looks(line.trim()));
        let (mut answer, is_end) = match command {
            Ok(line) if may == May::Look && !looks(line.trim()) => (refusal(&only()), false),
            Ok(line) => carry_out(card, line.trim()),
            Err(error) => (refusal(&error), false),
        };
        let is_long = answer.len() > OWN_LEN;
        if can_wait && is_long && *untaken > 0 && *untaken + answer.len() > ANSWER_LEN_MAX {
            answer = refusal("others have not taken their long answers yet: ask again");
        }
        answer.push('\n');
        *untaken += answer.len();
        (self.answer, self.taken) = (answer.into_bytes(), 0);
        (self.came, self.since) = (Instant::now(), Instant::now());
        is_end
    }

    /// Tells of its answer as much as it takes now.
    fn tell(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        while self.untaken() > 0 {
            // In large pieces: a socket has room for few small ones.
            match (&self.stream).write(&self.answer[self.taken..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            self.since = Instant::now();
        }
        Ok(())
    }
}

/// An answer that says why a command was not carried out.
fn refusal(reason: &str) -> String {
    json!({ "error": reason }).to_string()
}

/// Bytes of what has been said that take room of all.
fn shared(said: usize) -> usize {
    said.saturating_sub(OWN_LEN)
}

/// That a command finds no room, and what to do then.
fn too_long() -> String {
    format!(
        "a command has {COMMAND_LEN_MAX} bytes at most, and so have all long ones together that \
         are being said: divide it into several (with --replace, by tables), or ask again when \
         others have been answered; `--tables` has no such limit"
    )
}

/// Whether a command changes nothing about how frames are decided.
fn looks(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(3).collect();
    match words[..] {
        ["counters" | "stop" | "capture", ..] | ["rss", _] | ["flow", "list" | "query", ..] => true,
        ["table", "show", ..] => true,
        ["program", what, ..] => ["show", "register", "counter", "window"].contains(&what),
        _ => false,
    }
}

fn only() -> String {
    format!("this card serves a store, which tells it what to do; it can be asked: {LOOKS}")
}

/// Carries out a command: what came of it, and whether the card is to end.
fn carry_out(card: &mut Card, line: &str) -> (String, bool) {
    let answer = match line.split_whitespace().next() {
        Some("counters") if line == "counters" => json!(card.counters()),
        Some("stop") if line == "stop" => {
            return (json!({ "done": ["the card ends"] }).to_string(), true);
        }
        Some(word @ ("counters" | "stop")) => json!({ "error": one_word(word, line) }),
        Some("flow" | "set") => flow(card, line),
        Some("capture") => capture::answer(card, line),
        Some("application" | "program" | "table") => {
            return (programmed::answer(card, line), false);
        }
        Some("rss") => rss::answer(card, line),
        Some(word) => {
            let begins: String = word.chars().take(WORD_SHOWN).collect();
            json!({ "error": format!("`{begins}` is no command: {COMMANDS}") })
        }
        None => json!({ "error": format!("no command: {COMMANDS}") }),
    };
    (answer.to_string(), false)
}

/// That a command has no words behind it.
fn one_word(word: &str, line: &str) -> String {
    let option = match line.contains(" --") {
        true => "; options of `ctl` come before the command, as in `ctl --json counters`",
        false => "",
    };
    format!("`{word}` is a command of one word: say nothing behind it{option}")
}

/// That rules are there and decide about nothing.
const IDLE: &str = "a program decides about frames: rules are idle until `program none`";

fn flow(card: &mut Card, text: &str) -> Value {
    match card.apply(text) {
        Err(error) => json!({ "error": error.to_string() }),
        Ok(records) => {
            let says = |(port, record): &(u16, Record)| {
                let told = rules::told(record).unwrap_or_else(|| done(record));
                format!("port {port}: {told}")
            };
            let mut done: Vec<String> = records.iter().map(says).collect();
            let is_create = |(_, record): &(u16, Record)| matches!(record, Record::Created { .. });
            if card.program().is_some() && records.iter().any(is_create) {
                done.push(IDLE.to_owned());
            }
            json!({ "done": done })
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
    if command.len() > COMMAND_LEN_MAX {
        return Err(Failure::Refused { reason: too_long() });
    }
    let stream = UnixStream::connect(path).map_err(refused)?;
    stream.set_read_timeout(Some(WORK)).map_err(refused)?;
    // Where it has not been heard to its end, the answer says why.
    let said = writeln!(&stream, "{}", command.replace('\n', " "));
    let mut line = String::new();
    let heard = BufReader::new(&stream).read_line(&mut line);
    if line.is_empty() {
        said.map_err(refused)?;
    }
    heard.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Failure::Control {
            path: path.to_path_buf(),
            reason: format!("no answer within {} s: the card is at work", WORK.as_secs()),
        },
        _ => refused(error),
    })?;
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
        // What tables have, as a file.
        None if answer["tables"].is_object() || answer["groups"].is_object() => {
            write!(stdout(), "{line}")?;
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
        let control = Control::bind(&path, May::Change).unwrap();
        Bench { control, card, path, _directory: directory }
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
        let mut client = bench.connected();
        client.write_all(b"flow list 0\n").unwrap();
        assert!(bench.answer(&mut client).contains("rule 0"), "it is still there");
    }

    #[test]
    fn what_is_being_said_by_all_has_a_limit_and_what_was_said_makes_room() {
        let mut bench = bench();
        bench.control.room = 1 << 20;
        let room = bench.control.room;
        let says = |mut stream: UnixStream, text: Vec<u8>| {
            std::thread::spawn(move || {
                let _ = stream.write_all(&text);
                stream
            })
        };
        // As long as can be, twice, for it does not add up; and a byte longer.
        for (more, answer) in [(0, "is no command"), (0, "is no command"), (1, "bytes at most")] {
            let mut text = vec![b'x'; OWN_LEN + room + more];
            text.push(b'\n');
            let said = says(bench.connected(), text);
            while !said.is_finished() {
                bench.control.serve(&mut bench.card, Duration::from_millis(5));
            }
            assert!(bench.answer(&mut said.join().unwrap()).contains(answer));
        }
        // One that is not whole has all the room: who says little is answered all the same.
        let waits = says(bench.connected(), vec![b'x'; OWN_LEN + room]);
        while bench.control.clients.iter().all(|of| of.said.len() < OWN_LEN + room) {
            bench.control.serve(&mut bench.card, Duration::from_millis(5));
        }
        let mut client = bench.connected();
        client.write_all(b"counters\n").unwrap();
        assert!(bench.answer(&mut client).contains("ports"));
        let mut long = vec![b'x'; OWN_LEN + 1];
        long.push(b'\n');
        let mut client = bench.connected();
        client.write_all(&long).unwrap();
        assert!(bench.answer(&mut client).contains("and so have all long ones"));
        drop(waits.join().unwrap());
        bench.control.serve(&mut bench.card, Duration::from_millis(5));
        let mut client = bench.connected();
        client.write_all(b"counters\n").unwrap();
        assert!(bench.answer(&mut client).contains("ports"));
    }

    #[test]
    fn who_takes_nothing_of_a_long_answer_holds_up_nobody() {
        let mut bench = bench();
        for rule in 0..20_000 {
            let pattern = format!("eth / ipv4 src is 10.0.{}.{} / end", rule / 256, rule % 256);
            let create = format!("flow create 0 ingress pattern {pattern} actions drop / end");
            bench.card.apply(&create).unwrap();
        }
        let ask = |bench: &Bench| {
            let mut client = bench.connected();
            client.write_all(b"flow list 0\n").unwrap();
            client
        };
        let mut slow: Vec<UnixStream> = (0..2).map(|_| ask(&bench)).collect();
        while bench.control.clients.iter().filter(|of| of.untaken() > 0).count() < 2 {
            let began = Instant::now();
            bench.control.serve(&mut bench.card, Duration::from_millis(5));
            assert!(began.elapsed() < PATIENCE / 2, "it waits for who takes nothing");
        }
        let mut client = bench.connected();
        client.write_all(b"counters\n").unwrap();
        assert!(bench.answer(&mut client).contains("ports"));
        // They have all of it once they take it.
        for client in &mut slow {
            let said = bench.answer(client);
            assert!(said.len() > 1_000_000 && said.ends_with("]}\n"), "{}", said.len());
        }
        assert!(bench.control.clients.is_empty());
    }

    #[test]
    fn where_answers_wait_only_what_can_be_asked_again_is_put_off() {
        let mut bench = bench();
        let create = |rule: u32| {
            let pattern = format!("eth / ipv4 src is 10.0.{}.{} / end", rule / 256, rule % 256);
            format!("flow create 0 ingress pattern {pattern} actions drop / end\n")
        };
        let [before, more] = [0..100, 100..400].map(|rules| rules.map(create).collect::<String>());
        bench.card.apply(&before).unwrap();
        let mut asked = |command: &str| {
            let (stream, _other) = UnixStream::pair().unwrap();
            let mut client = Client::new(stream);
            let mut untaken = ANSWER_LEN_MAX;
            client.answer(&mut bench.card, May::Change, Ok(command.to_owned()), &mut untaken);
            String::from_utf8(client.answer).unwrap()
        };
        assert!(asked("flow list 0").contains("ask again"));
        assert!(asked("counters").contains("\"ports\""), "a short one is no trouble");
        assert!(asked(&more).contains("rule 399 created"), "what is done is said to be done");
        assert!(asked("stop").contains("the card ends"));
    }

    #[test]
    fn a_card_that_serves_is_asked_and_not_changed() {
        let mut bench = bench();
        bench.control.may = May::Look;
        for (command, answer) in [
            ("counters", "\"ports\""),
            ("rss 0", "entries of the table"),
            ("flow list 0", "port 0: no rules"),
            ("stop now", "`stop` is a command of one word"),
            ("capture 0", "nothing is captured"),
            ("program show", "no program"),
            ("program register a 0", "has no program"),
            ("table show a", "has no program"),
            ("table show --json", "has no program"),
            ("application a table show", "it can be asked"),
            ("rss 0 queues 0 end", "it can be asked: counters"),
            ("flow flush 0", "it can be asked"),
            ("program none", "it can be asked"),
            ("program digests a", "it can be asked"),
            ("table register_write a 0 1", "it can be asked"),
            ("application a table delete b", "it can be asked"),
            ("", "it can be asked"),
        ] {
            let mut client = bench.connected();
            client.write_all(format!("{command}\n").as_bytes()).unwrap();
            let said = bench.answer(&mut client);
            assert!(said.contains(answer), "{command}: {said}");
        }
    }

    #[test]
    fn a_file_that_is_no_socket_stays_and_one_of_another_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rules");
        fs::write(&path, "precious").unwrap();
        let refused = Control::bind(&path, May::Change).err().unwrap().to_string();
        assert!(refused.contains("it is there already"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        // What is put in the place of the socket is not taken away with it.
        let socket = directory.path().join("card");
        let control = Control::bind(&socket, May::Change).unwrap();
        fs::rename(&path, &socket).unwrap();
        drop(control);
        assert_eq!(fs::read_to_string(&socket).unwrap(), "precious");
    }
}
