//! A thread that serves metrics over HTTP, one request a connection.
//!
//! All sockets are non-blocking, and the thread waits for all of them at once: a slow client holds
//! up nobody. Each connection has a deadline, and there is a limit to connections: the oldest gives
//! way to a new one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::families::{Families, Format, written};
use super::http::{self, HEAD_LEN_MAX, HttpRefusal, MetricsRequest};

/// Most connections at once.
const CONNECTIONS_MAX: usize = 16;

/// How long a connection may last.
const DEADLINE: Duration = Duration::from_secs(10);

/// How long the rest of a request is taken from a client that has its answer: one that is still
/// sending would otherwise lose the answer to a reset.
const FAREWELL: Duration = Duration::from_secs(1);

/// Counters that were taken so recently are good enough: a storm of requests costs a card no more
/// than ten a second.
const FRESH: Duration = Duration::from_millis(100);

/// How often deadlines are looked at while somebody is connected.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A pause where the system has no descriptor for a new connection.
const PAUSE: Duration = Duration::from_millis(50);

/// A server. It ends with this.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens there, and answers with what the source has; it has nothing where a card does not
    /// answer in time.
    pub fn start(
        listen: SocketAddr,
        source: impl FnMut() -> Option<Families> + Send + 'static,
    ) -> io::Result<MetricsServer> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = UnixStream::pair()?;
        let page = Page { source, made: None };
        let serving = Serving { listener, stopped, connections: Vec::new(), page };
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || serving.run())?;
        Ok(MetricsServer { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to give back.
            let _ = thread.join();
        }
    }
}

/// The metrics, made anew where they are older than [`FRESH`].
struct Page<S> {
    source: S,
    made: Option<(Instant, Arc<Families>)>,
}

impl<S: FnMut() -> Option<Families>> Page<S> {
    fn text(&mut self, format: Format) -> Option<String> {
        self.made.take_if(|(at, _)| at.elapsed() >= FRESH);
        if self.made.is_none() {
            let families = Arc::new((self.source)()?);
            self.made = Some((Instant::now(), families));
        }
        let (_, families) = self.made.as_ref()?;
        written(families, format)
    }

    fn answer(&mut self, request: Result<MetricsRequest, HttpRefusal>) -> Vec<u8> {
        let metrics = request.and_then(|request| {
            let text = self.text(request.format).ok_or(HttpRefusal::Unavailable)?;
            Ok(http::found(request, &text))
        });
        metrics.unwrap_or_else(http::refused)
    }
}

/// The state of the thread.
struct Serving<S> {
    listener: TcpListener,
    /// Its other end goes when the server is to end.
    stopped: UnixStream,
    /// In the order in which they came.
    connections: Vec<MetricsConnection>,
    page: Page<S>,
}

impl<S: FnMut() -> Option<Families>> Serving<S> {
    fn run(mut self) {
        while self.wait() {
            self.accept();
            let page = &mut self.page;
            self.connections.retain_mut(|connection| connection.advance(page));
            let excess = self.connections.len().saturating_sub(CONNECTIONS_MAX);
            self.connections.drain(..excess);
        }
    }

    /// Waits until there is something to do; `false` where the server is to end.
    fn wait(&self) -> bool {
        let own = [(self.stopped.as_fd(), PollFlags::IN), (self.listener.as_fd(), PollFlags::IN)];
        let clients = self.connections.iter().map(|of| (of.stream.as_fd(), of.waits_for()));
        let all = own.into_iter().chain(clients);
        let mut polled: Vec<PollFd<'_>> =
            all.map(|(fd, what)| PollFd::from_borrowed_fd(fd, what)).collect();
        let timeout = (!self.connections.is_empty()).then_some(&TURN);
        // A signal is no reason to end; all are looked at.
        let _ = poll(&mut polled, timeout);
        polled[0].revents().is_empty()
    }

    fn accept(&mut self) {
        for _ in 0..CONNECTIONS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    self.connections.push(MetricsConnection::new(stream));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return thread::sleep(PAUSE),
            }
        }
    }
}

/// A client.
struct MetricsConnection {
    stream: TcpStream,
    came: Instant,
    head: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of the answer that were sent.
    sent: usize,
    /// When all of it had been sent.
    answered: Option<Instant>,
}

impl MetricsConnection {
    fn new(stream: TcpStream) -> MetricsConnection {
        let (head, answer, came) = (Vec::new(), Vec::new(), Instant::now());
        MetricsConnection { stream, came, head, answer, sent: 0, answered: None }
    }

    fn waits_for(&self) -> PollFlags {
        match self.sent < self.answer.len() {
            true => PollFlags::OUT,
            false => PollFlags::IN,
        }
    }

    /// Does what can be done now; `false` where the connection is over.
    fn advance<S: FnMut() -> Option<Families>>(&mut self, page: &mut Page<S>) -> bool {
        let is_late = self.came.elapsed() > DEADLINE
            || self.answered.is_some_and(|at| at.elapsed() > FAREWELL);
        if is_late {
            return false;
        }
        if self.answer.is_empty() {
            match self.hear() {
                Ok(None) => return true,
                Ok(Some(request)) => self.answer = page.answer(request),
                Err(_) => return false,
            }
        }
        if self.answered.is_none() {
            match self.tell() {
                Ok(false) => return true,
                Ok(true) => {
                    self.answered = Some(Instant::now());
                    let _ = self.stream.shutdown(Shutdown::Write);
                }
                Err(_) => return false,
            }
        }
        self.drain()
    }

    /// The request, once its head is whole.
    fn hear(&mut self) -> io::Result<Option<Result<MetricsRequest, HttpRefusal>>> {
        let mut piece = [0; 4_096];
        loop {
            let room = HEAD_LEN_MAX - self.head.len();
            match self.stream.read(&mut piece[..room.min(4_096)]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.head.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            let request = http::read(&self.head);
            if request.is_some() {
                return Ok(request);
            }
        }
    }

    /// Sends as much of the answer as the client takes; whether it has all.
    fn tell(&mut self) -> io::Result<bool> {
        while self.sent < self.answer.len() {
            match self.stream.write(&self.answer[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes some of what a client still sends, which nobody reads; `false` where it has ended.
    fn drain(&mut self) -> bool {
        let mut piece = [0; 4_096];
        match self.stream.read(&mut piece) {
            Ok(len) => len > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::families::{Family, MetricKind, MetricValue};
    use super::*;

    /// A server whose only metric says how often it was asked, and that count.
    fn server() -> (MetricsServer, Arc<AtomicU64>) {
        let asked = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&asked);
        let source = move || {
            let mut family = Family::new(MetricKind::Counter, "asked", "", "Questions.");
            let count = counts.fetch_add(1, Ordering::Relaxed) + 1;
            family.push(Vec::new(), MetricValue::Whole(count));
            let mut families = Families::default();
            families.push(family);
            Some(families)
        };
        (MetricsServer::start(([127, 0, 0, 1], 0).into(), source).unwrap(), asked)
    }

    fn connected(server: &MetricsServer) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(2 * DEADLINE)).unwrap();
        stream
    }

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";

    /// The answer to these bytes.
    fn answer(server: &MetricsServer, bytes: &[u8]) -> String {
        let mut stream = connected(server);
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_request_has_an_answer_and_a_storm_of_them_few_samples() {
        let (server, asked) = server();
        let first = answer(&server, REQUEST);
        assert!(first.ends_with("# TYPE asked_total counter\nasked_total 1\n"), "{first}");
        let begun = Instant::now();
        (0..50).for_each(|_| assert!(answer(&server, REQUEST).starts_with("HTTP/1.1 200 ")));
        let most = 2 + begun.elapsed().as_millis() / FRESH.as_millis();
        assert!(u128::from(asked.load(Ordering::Relaxed)) <= most);
        for (bytes, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"stats\r\n", "400"),
        ] {
            assert!(answer(&server, bytes).starts_with(&format!("HTTP/1.1 {status} ")));
        }
    }

    #[test]
    fn a_client_that_is_slow_or_silent_holds_up_nobody_and_gives_way() {
        let (server, _) = server();
        let mut slow: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connected(&server)).collect();
        for stream in &mut slow {
            stream.write_all(b"GET /metr").unwrap();
        }
        for _ in 0..CONNECTIONS_MAX {
            let begun = Instant::now();
            assert!(answer(&server, REQUEST).starts_with("HTTP/1.1 200 "));
            assert!(begun.elapsed() < DEADLINE / 4, "{:?}", begun.elapsed());
        }
        // The oldest were let go, without an answer.
        let mut rest = Vec::new();
        assert_eq!(slow[0].read_to_end(&mut rest).unwrap_or(0), 0);
    }

    #[test]
    fn a_request_in_pieces_is_read_and_an_endless_one_ends() {
        let (server, _) = server();
        let mut stream = connected(&server);
        for byte in REQUEST {
            stream.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        let mut message = String::new();
        stream.read_to_string(&mut message).unwrap();
        assert!(message.starts_with("HTTP/1.1 200 "), "{message}");
        // An endless head, and content that nobody asked for.
        let mut stream = connected(&server);
        let line = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(2_000));
        let _ = stream.write_all(line.as_bytes());
        let mut message = String::new();
        stream.read_to_string(&mut message).unwrap();
        assert!(message.starts_with("HTTP/1.1 431 "), "{message}");
        let mut long = b"POST /metrics HTTP/1.1\r\nContent-Length: 60000\r\n\r\n".to_vec();
        long.resize(60_000, b'x');
        assert!(answer(&server, &long).starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn a_source_without_an_answer_is_unavailable_and_the_server_ends() {
        let server = MetricsServer::start(([127, 0, 0, 1], 0).into(), || None).unwrap();
        assert!(answer(&server, REQUEST).starts_with("HTTP/1.1 503 "));
        let address = server.address();
        let _waits = connected(&server);
        let begun = Instant::now();
        drop(server);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }
}
