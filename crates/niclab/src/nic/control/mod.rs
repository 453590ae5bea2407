//! The socket that a card is told things by, and who speaks to it.
//!
//! The socket takes lines. Each is a command, and is answered by one line: a JSON object that has
//! `error` where the command was not carried out. A file that a command names is the client's: it
//! sends its text, or the open file beside the command. The card opens nothing for a client.
//!
//! `door` makes the socket, `client` is one who is connected, `ctl` the other end.

mod client;
mod ctl;
mod door;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use niclab_card::Card;
use niclab_nic::rule::session::Record;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::{capture, programmed, rss};
use crate::failure::Failure;
use crate::rules;
use client::Client;
pub(super) use ctl::ctl;
use door::ListeningSocket;

/// Longest command over the socket, bytes, and most that is held of all that are being said: a file
/// of tables for a million entries.
const COMMAND_LEN_MAX: usize = 64 << 20;

/// Part of a command that does not count towards the shared limit, bytes.
const OWN_LEN: usize = 4_096;

/// Largest answer made from tables, and limit of all answers not yet read, bytes.
pub(super) const ANSWER_LEN_MAX: usize = COMMAND_LEN_MAX;

/// How long a client may be silent, and how long it may take in all before its rate counts.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes a second that a client says or takes at least.
const RATE_MIN: u64 = 1 << 20;

/// How long a client waits for an answer.
const WORK: Duration = Duration::from_secs(60);

const COMMANDS: &str =
    "application, capture, counters, program, rss, stop, table, or a flow command";

/// Letters of a word that are shown in an answer which refuses it.
const WORD_SHOWN: usize = 40;

/// Commands allowed on a card that another program controls.
const READ_ONLY_COMMANDS: &str = "counters; capture PORT …; rss PORT; flow list or query; \
    program show, register, counter or window; table show; stop";

/// What may be asked by a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    Full,
    /// What changes nothing: rules, tables and the program are somebody else's.
    ReadOnly,
}

/// Most that are kept connected. Who comes is heard first: what it says is answered if all of it is
/// there. Of those that are left, the one that was silent for longest gives way.
const CLIENTS_MAX: usize = 16;

/// The socket of a card that runs. It goes with this.
pub struct Control {
    socket: ListeningSocket,
    access: Access,
    /// Most that is held of what is being said, bytes.
    room: usize,
    clients: Vec<Client>,
}

impl Control {
    /// Listens there, for the owner of this process and those of a group, if one is named. What a
    /// killed card left is taken away; one that runs is not disturbed.
    pub fn bind(path: &Path, group: Option<&str>, access: Access) -> Result<Control, Failure> {
        let socket = ListeningSocket::open(path, group)?;
        Ok(Control { socket, access, room: COMMAND_LEN_MAX, clients: Vec::new() })
    }

    /// Answers who says something within so much time; whether the card is to end. Who says
    /// nothing, or takes nothing of a long answer, holds up nobody, and is let go after a while.
    pub fn serve(&mut self, card: &mut Card, patience: Duration) -> bool {
        self.wait(patience);
        for _ in 0..CLIENTS_MAX {
            let Ok((stream, _)) = self.socket.listener.accept() else { break };
            self.clients.push(Client::new(stream));
        }
        let (mut is_end, access) = (false, self.access);
        let held: usize = self.clients.iter().map(|client| shared(client.said_len())).sum();
        let mut room = self.room.saturating_sub(held);
        let mut untaken: usize = self.clients.iter().map(|client| client.untaken()).sum();
        let mut worked = Duration::ZERO;
        self.clients.retain_mut(|client| {
            if client.untaken() == 0 {
                match client.listen(&mut room) {
                    Ok(None) => return client.is_awake(),
                    Ok(Some(said)) => {
                        let (ends, took) = client.answer(card, access, said, &mut untaken);
                        is_end |= ends;
                        worked += took;
                    }
                    Err(_) => return false,
                }
            }
            // Who goes before it has its answer does not want it.
            client.tell().is_ok() && client.untaken() > 0 && client.is_awake()
        });
        // While the card was at work it heard nobody.
        self.clients.iter_mut().for_each(|client| client.extend_deadline(worked));
        while self.clients.len() > CLIENTS_MAX {
            let idle = |(_, client): &(usize, &Client)| client.silent();
            let idlest = self.clients.iter().enumerate().max_by_key(idle).map_or(0, |(at, _)| at);
            self.clients
                .swap_remove(idlest)
                .disconnect("others came, and it was silent for longest");
        }
        is_end
    }

    /// Waits until somebody comes, says something or takes something.
    fn wait(&self, patience: Duration) {
        let (tv_sec, tv_nsec) = (patience.as_secs() as i64, patience.subsec_nanos().into());
        let timeout = Timespec { tv_sec, tv_nsec };
        let streams = self.clients.iter().map(Client::waits_for);
        let new = [(self.socket.listener.as_fd(), PollFlags::IN)];
        let mut asked: Vec<PollFd<'_>> =
            streams.chain(new).map(|(fd, what)| PollFd::from_borrowed_fd(fd, what)).collect();
        // Whatever it says, all are looked at.
        let _ = poll(&mut asked, Some(&timeout));
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
        "command too long: a command, and all pending ones together, have at most {} MiB; split \
         it, or retry when others are done",
        COMMAND_LEN_MAX >> 20
    )
}

/// Whether a command changes nothing about how frames are decided.
fn is_read_only(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(3).collect();
    match words[..] {
        ["counters" | "stop" | "capture", ..] | ["rss", _] | ["flow", "list" | "query", ..] => true,
        ["table", "show", ..] => true,
        ["program", what, ..] => ["show", "register", "counter", "window"].contains(&what),
        _ => false,
    }
}

fn only() -> String {
    format!(
        "this card serves a store, which tells it what to do; it can be asked: {READ_ONLY_COMMANDS}"
    )
}

/// Carries out a command, with the file that came beside it: what came of it, and whether the card
/// is to end.
fn carry_out(card: &mut Card, line: &str, file: Option<OwnedFd>) -> (String, bool) {
    let answer = match line.split_whitespace().next() {
        Some("counters") if line == "counters" => json!(card.counters()),
        Some("stop") if line == "stop" => {
            return (json!({ "done": ["the card ends"] }).to_string(), true);
        }
        Some(word @ ("counters" | "stop")) => json!({ "error": one_word(word, line) }),
        Some("flow" | "set") => flow(card, line),
        Some("capture") => capture::answer(card, line, file),
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::Instant;

    use niclab_card::{CardConfig, PortName};

    use super::client::Said;
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
        let control = Control::bind(&path, None, Access::Full).unwrap();
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
    fn the_socket_is_waited_at_for_whole_seconds_too() {
        let mut bench = bench();
        let begun = Instant::now();
        bench.control.serve(&mut bench.card, Duration::from_millis(1_010));
        assert!(begun.elapsed() >= Duration::from_secs(1));
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
        for (more, answer) in [(0, "is no command"), (0, "is no command"), (1, "command too long")]
        {
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
        while bench.control.clients.iter().all(|of| of.said_len() < OWN_LEN + room) {
            bench.control.serve(&mut bench.card, Duration::from_millis(5));
        }
        let mut client = bench.connected();
        client.write_all(b"counters\n").unwrap();
        assert!(bench.answer(&mut client).contains("ports"));
        let mut long = vec![b'x'; OWN_LEN + 1];
        long.push(b'\n');
        let mut client = bench.connected();
        client.write_all(&long).unwrap();
        assert!(bench.answer(&mut client).contains("and all pending ones together"));
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
            let said = Said { line: Ok(command.to_owned()), file: None };
            client.answer(&mut bench.card, Access::Full, said, &mut untaken);
            client.answered()
        };
        assert!(asked("flow list 0").contains("ask again"));
        assert!(asked("counters").contains("\"ports\""), "a short one is no trouble");
        assert!(asked(&more).contains("rule 399 created"), "what is done is said to be done");
        assert!(asked("stop").contains("the card ends"));
    }

    #[test]
    fn a_card_that_serves_is_asked_and_not_changed() {
        let mut bench = bench();
        bench.control.access = Access::ReadOnly;
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
    fn who_is_slow_gives_way_to_who_comes() {
        let mut bench = bench();
        // More than are kept, who say a part of a command now and then.
        let mut slow: Vec<UnixStream> = (0..3 * CLIENTS_MAX).map(|_| bench.connected()).collect();
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            for client in &mut slow {
                let _ = client.write_all(b"x");
            }
            bench.control.serve(&mut bench.card, Duration::from_millis(5));
            assert!(bench.control.clients.len() <= CLIENTS_MAX);
            let begun = Instant::now();
            let mut client = bench.connected();
            client.write_all(b"flow list 0\n").unwrap();
            assert!(bench.answer(&mut client).contains("done"));
            assert!(begun.elapsed() < PATIENCE / 5, "{:?}", begun.elapsed());
        }
        // Who had to go was told why.
        let said = slow.iter_mut().filter_map(|client| {
            client.set_nonblocking(true).unwrap();
            let mut said = String::new();
            let _ = client.read_to_string(&mut said);
            said.contains("silent for longest").then_some(said)
        });
        assert!(said.count() >= 2 * CLIENTS_MAX);
    }
}
