//! The card's side of the control socket. Requests and responses are those of `niclab-control`.
//!
//! A client sends one request and gets one answer, a line each. A file that a request names is the
//! client's: it sends its text, or the open file beside the request. The card opens no file for a
//! client.
//!
//! `listener` makes the socket, `client` is a connection, and `answer` carries out its request.

mod answer;
mod client;
mod listener;

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use niclab_card::Card;
use niclab_control::LINE_LEN_MAX;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::Failure;
use client::SocketClient;
use listener::ListeningSocket;

/// Part of a request that does not count towards the shared limit, bytes.
const OWN_LEN: usize = 4_096;

/// Limit of all answers not yet read, bytes.
const UNTAKEN_MAX: usize = LINE_LEN_MAX;

/// How long a client may be silent, and how long it may take in all before its rate counts.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes a second that a client says or takes at least.
const RATE_MIN: u64 = 1 << 20;

/// The rights of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    Full,
    /// Queries only: another program controls rules, tables and program.
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
    clients: Vec<SocketClient>,
}

impl Control {
    /// Listens there, for the owner of this process and those of a group, if one is named. What a
    /// killed card left is taken away; one that runs is not disturbed.
    pub fn bind(path: &Path, group: Option<&str>, access: Access) -> Result<Control, Failure> {
        let socket = ListeningSocket::open(path, group)?;
        Ok(Control { socket, access, room: LINE_LEN_MAX, clients: Vec::new() })
    }

    /// Answers who says something within so much time; whether the card is to end. Who says
    /// nothing, or takes nothing of a long answer, holds up nobody, and is let go after a while.
    pub fn serve(&mut self, card: &mut Card, patience: Duration) -> bool {
        self.wait(patience);
        for _ in 0..CLIENTS_MAX {
            let Ok((stream, _)) = self.socket.listener.accept() else { break };
            self.clients.push(SocketClient::new(stream));
        }
        let (mut is_end, access) = (false, self.access);
        let held: usize = self.clients.iter().map(|client| shared(client.request_len())).sum();
        let mut room = self.room.saturating_sub(held);
        let mut untaken: usize = self.clients.iter().map(|client| client.unsent_len()).sum();
        let mut worked = Duration::ZERO;
        self.clients.retain_mut(|client| {
            if client.unsent_len() == 0 {
                match client.receive(&mut room) {
                    Ok(None) => return client.is_active(),
                    Ok(Some(message)) => {
                        let (ends, took) = client.answer(card, access, message, &mut untaken);
                        is_end |= ends;
                        worked += took;
                    }
                    Err(_) => return false,
                }
            }
            // Who goes before it has its answer does not want it.
            client.send().is_ok() && client.unsent_len() > 0 && client.is_active()
        });
        // While the card was at work it heard nobody.
        self.clients.iter_mut().for_each(|client| client.extend_deadline(worked));
        while self.clients.len() > CLIENTS_MAX {
            let idle = |(_, client): &(usize, &SocketClient)| client.idle_time();
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
        let streams = self.clients.iter().map(SocketClient::poll_flags);
        let new = [(self.socket.listener.as_fd(), PollFlags::IN)];
        let mut asked: Vec<PollFd<'_>> =
            streams.chain(new).map(|(fd, what)| PollFd::from_borrowed_fd(fd, what)).collect();
        // Whatever it says, all are looked at.
        let _ = poll(&mut asked, Some(&timeout));
    }
}

/// Bytes of what has been said that take room of all.
fn shared(message: usize) -> usize {
    message.saturating_sub(OWN_LEN)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;
    use std::time::Instant;

    use niclab_card::{CardConfig, PortName};
    use niclab_control::Request;

    use super::client::ReceivedRequest;
    use super::*;

    const COUNTERS: &[u8] = b"{\"request\":\"counters\"}\n";
    const LIST: &[u8] = b"{\"request\":\"flow\",\"command\":\"flow list 0\"}\n";

    /// A request with commands of the rule language.
    fn flow(command: &str) -> Request {
        Request::Flow { command: command.to_owned() }
    }

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
    fn a_silent_client_delays_nobody() {
        let mut bench = bench();
        let _silent: Vec<UnixStream> = (0..3).map(|_| bench.connected()).collect();
        let mut client = bench.connected();
        client.write_all(LIST).unwrap();
        assert!(bench.answer(&mut client).contains("listed"));
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
        let create = flow("flow create 0 ingress pattern eth / end actions drop / end").line();
        let create = format!("{create}\n").into_bytes();
        let mut client = bench.connected();
        client.write_all(&create[..20]).unwrap();
        bench.control.serve(&mut bench.card, Duration::from_millis(5));
        client.write_all(&create[20..]).unwrap();
        assert!(bench.answer(&mut client).contains(r#"{"did":"created","port":0,"rule":0}"#));
        // Without its end it is no command, whole as it looks.
        let mut gone = bench.connected();
        gone.write_all(flow("flow flush 0").line().as_bytes()).unwrap();
        drop(gone);
        let mut client = bench.connected();
        client.write_all(LIST).unwrap();
        assert!(bench.answer(&mut client).contains("\"rule\":0"), "it is still there");
    }

    #[test]
    fn pending_commands_share_a_limit_and_finished_commands_free_it() {
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
        for (more, answer) in [(0, "no request"), (0, "no request"), (1, "command too long")] {
            let mut text = vec![b'x'; OWN_LEN + room + more];
            text.push(b'\n');
            let message = says(bench.connected(), text);
            while !message.is_finished() {
                bench.control.serve(&mut bench.card, Duration::from_millis(5));
            }
            assert!(bench.answer(&mut message.join().unwrap()).contains(answer));
        }
        // One that is not whole has all the room: who says little is answered all the same.
        let waits = says(bench.connected(), vec![b'x'; OWN_LEN + room]);
        while bench.control.clients.iter().all(|of| of.request_len() < OWN_LEN + room) {
            bench.control.serve(&mut bench.card, Duration::from_millis(5));
        }
        let mut client = bench.connected();
        client.write_all(COUNTERS).unwrap();
        assert!(bench.answer(&mut client).contains("ports"));
        let mut long = vec![b'x'; OWN_LEN + 1];
        long.push(b'\n');
        let mut client = bench.connected();
        client.write_all(&long).unwrap();
        assert!(bench.answer(&mut client).contains("and all pending ones together"));
        drop(waits.join().unwrap());
        bench.control.serve(&mut bench.card, Duration::from_millis(5));
        let mut client = bench.connected();
        client.write_all(COUNTERS).unwrap();
        assert!(bench.answer(&mut client).contains("ports"));
    }

    #[test]
    fn a_client_that_does_not_read_a_long_answer_delays_nobody() {
        let mut bench = bench();
        for rule in 0..20_000 {
            let pattern = format!("eth / ipv4 src is 10.0.{}.{} / end", rule / 256, rule % 256);
            let create = format!("flow create 0 ingress pattern {pattern} actions drop / end");
            bench.card.apply(&create).unwrap();
        }
        let ask = |bench: &Bench| {
            let mut client = bench.connected();
            client.write_all(LIST).unwrap();
            client
        };
        let mut slow: Vec<UnixStream> = (0..2).map(|_| ask(&bench)).collect();
        while bench.control.clients.iter().filter(|of| of.unsent_len() > 0).count() < 2 {
            let began = Instant::now();
            bench.control.serve(&mut bench.card, Duration::from_millis(5));
            assert!(began.elapsed() < PATIENCE / 2, "it waits for who takes nothing");
        }
        let mut client = bench.connected();
        client.write_all(COUNTERS).unwrap();
        assert!(bench.answer(&mut client).contains("ports"));
        // They have all of it once they take it.
        for client in &mut slow {
            let message = bench.answer(client);
            assert!(message.len() > 1_000_000 && message.ends_with("}\n"), "{}", message.len());
        }
        assert!(bench.control.clients.is_empty());
    }

    #[test]
    fn waiting_answers_delay_only_repeatable_requests() {
        let mut bench = bench();
        let create = |rule: u32| {
            let pattern = format!("eth / ipv4 src is 10.0.{}.{} / end", rule / 256, rule % 256);
            format!("flow create 0 ingress pattern {pattern} actions drop / end\n")
        };
        let [before, more] = [0..100, 100..400].map(|rules| rules.map(create).collect::<String>());
        bench.card.apply(&before).unwrap();
        let mut asked = |request: Request| {
            let (stream, _other) = UnixStream::pair().unwrap();
            let mut client = SocketClient::new(stream);
            let mut untaken = UNTAKEN_MAX;
            let message = ReceivedRequest { request: Ok(request), file: None };
            client.answer(&mut bench.card, Access::Full, message, &mut untaken);
            client.answer_text()
        };
        assert!(asked(flow("flow list 0")).contains("ask again"));
        assert!(asked(Request::Counters {}).contains("\"ports\""), "a short one is no trouble");
        assert!(asked(flow(&more)).contains("\"rule\":399}"), "what is done is said to be done");
        assert!(asked(Request::Stop {}).contains("stopping"));
    }

    #[test]
    fn a_serving_card_answers_queries_and_refuses_changes() {
        let mut bench = bench();
        bench.control.access = Access::ReadOnly;
        for (request, answer) in [
            (r#""counters""#, "\"ports\""),
            (r#""rss","port":0"#, "\"indirection\""),
            (r#""flow","command":"flow list 0""#, "listed"),
            (r#""flow","command":"flow list 0\nflow flush 0""#, "it can be asked"),
            (r#""stop","now":true"#, "unknown field `now`"),
            (r#""capture_state","port":0"#, "\"capture\":null"),
            (r#""program_show""#, "\"tables\":null"),
            (r#""program_register","array":"a","index":0"#, "has no program"),
            (r#""table_show","table":"a""#, "has no program"),
            (r#""table_file""#, "has no program"),
            (r#""table_show","application":"a""#, "it can be asked"),
            (r#""rss","port":0,"change":"queues 0 end""#, "it can be asked: counters"),
            (r#""flow","command":"flow flush 0""#, "it can be asked"),
            (r#""flow","command":"""#, "it can be asked"),
            (r#""program_none""#, "it can be asked"),
            (r#""program_digests","digest":"a""#, "it can be asked"),
            (r#""table_command","command":"register_write a 0 1""#, "it can be asked"),
            (r#""table_command","application":"a","command":"delete b""#, "it can be asked"),
        ] {
            let mut client = bench.connected();
            client.write_all(format!("{{\"request\":{request}}}\n").as_bytes()).unwrap();
            let message = bench.answer(&mut client);
            assert!(message.contains(answer), "{request}: {message}");
        }
    }

    #[test]
    fn a_malformed_request_is_answered_with_its_error() {
        let mut bench = bench();
        for (line, answer) in [
            (&b"counters\n"[..], "no request: expected a JSON object"),
            (b"\n", "no request: expected a JSON object"),
            (b"{\"request\":\"fly\"}\n", "unknown variant `fly`, expected one of `applications`"),
            (b"{\"request\":\"flow\"}\n", "missing field `command`"),
            (b"{\"request\":\"counters\"\n", "EOF while parsing"),
            (b"{\"request\":\"\xff\"}\n", "a command is text in UTF-8"),
        ] {
            let mut client = bench.connected();
            client.write_all(line).unwrap();
            let message = bench.answer(&mut client);
            assert!(message.starts_with("{\"response\":\"error\",\"reason\":\""), "{message}");
            assert!(message.contains(answer), "{message}");
        }
    }

    #[test]
    fn slow_clients_make_room_for_new_ones() {
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
            client.write_all(LIST).unwrap();
            assert!(bench.answer(&mut client).contains("listed"));
            assert!(begun.elapsed() < PATIENCE / 5, "{:?}", begun.elapsed());
        }
        // Who had to go was told why.
        let message = slow.iter_mut().filter_map(|client| {
            client.set_nonblocking(true).unwrap();
            let mut message = String::new();
            let _ = client.read_to_string(&mut message);
            message.contains("silent for longest").then_some(message)
        });
        assert!(message.count() >= 2 * CLIENTS_MAX);
    }
}
