//! HTTP: how answers end, and connections that do.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Mutex;

use super::scripted::served;
use super::*;

fn base() -> Requests {
    Requests { values: Values::Fixed(0), path: "/a?b=c".to_owned(), ..requests(Protocol::Http) }
}

/// The next request of a connection: its head, and its body; `None` where the other side is gone.
fn request(stream: &mut TcpStream, left: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut bytes = [0; 4096];
    loop {
        if let Some(end) = left.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(left[..end].to_vec()).unwrap();
            let len = head
                .split_once("Content-Length: ")
                .map_or(0, |(_, len)| len.lines().next().unwrap().parse().unwrap());
            if left.len() >= end + 4 + len {
                let body = left[end + 4..end + 4 + len].to_vec();
                left.drain(..end + 4 + len);
                return Some((head, body));
            }
        }
        match stream.read(&mut bytes) {
            Ok(count @ 1..) => left.extend_from_slice(&bytes[..count]),
            _ => return None,
        }
    }
}

/// Answers the requests of each connection with the next of these, and closes it behind the last.
fn says<'a>(answers: &'a [&'a [u8]]) -> impl Fn(usize, TcpStream) + 'a {
    move |_, mut stream| {
        let mut left = Vec::new();
        for answer in answers {
            if request(&mut stream, &mut left).is_none() || stream.write_all(answer).is_err() {
                return;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
    }
}

/// An answer to each request, for ever.
fn always<'a>(answer: &'a [u8], pieces: usize) -> impl Fn(usize, TcpStream) + 'a {
    move |_, mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut left = Vec::new();
        while request(&mut stream, &mut left).is_some() {
            if answer.chunks(pieces).any(|piece| stream.write_all(piece).is_err()) {
                return;
            }
        }
    }
}

#[test]
fn answers_end_where_the_standard_says() {
    let answers: [&[u8]; 7] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length:0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
          5;x=y\r\nhello\r\n00A\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
        // Where both are said the chunks count (RFC 9112, §6.3).
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ];
    for answer in answers {
        for pieces in [answer.len(), 1, 7] {
            let asked = Requests { depth: 3, duration_ns: 30_000_000, ..base() };
            let run = || served(always(answer, pieces), |server| go(&asked, server));
            // A busy machine may take all of the time away.
            let observed = (0..10).map(|_| run()).find(|observed| observed.sent > 0).unwrap();
            assert_clean(&observed);
            assert_eq!(observed.reconnected, 0, "{observed:?}");
            let len = answer.len() as u64;
            assert_eq!(observed.received_bytes, observed.answered * len, "{answer:?}");
        }
    }
}

#[test]
fn errors_are_counted_as_refused() {
    for (answer, refused) in [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone".as_slice(), true),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", true),
        (b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", false),
    ] {
        let observed = served(always(answer, answer.len()), |server| go(&base(), server));
        assert_balanced(&observed);
        assert_eq!(observed.refused, if refused { observed.answered } else { 0 });
        assert!(observed.answered > 0 && observed.ended.is_none(), "{observed:?}");
    }
}

#[test]
fn a_malformed_answer_is_reported() {
    let long = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'y'; 200_000]].concat();
    let odd: [(&[u8], &str); 6] = [
        (b"STORED\r\n", "it said \"STORED"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "it said \"HTTP/1.1 101"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "it said \"HTTP/1.1 200"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "it said"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "it said \"xyz"),
        (&long, "it said \"HTTP/1.1 200 OK\\r\\nX: yyyy"),
    ];
    for (answer, words) in odd {
        let reported = served(always(answer, answer.len()), |server| {
            run(&base(), server, &AtomicBool::new(false), || (), None).unwrap_err().to_string()
        });
        assert!(reported.contains("does not speak http") && reported.contains(words), "{reported}");
    }
}

#[test]
fn connections_that_the_server_closes_are_made_anew() {
    let ok: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    let last: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: Close\r\n\r\nab";
    let old: &[u8] = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab";
    let kept: &[u8] = b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nab";
    let endless: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nas long as it takes";
    let scripts: [&[&[u8]]; 5] =
        [&[ok, ok, last], &[old], &[kept, kept, old], &[ok, endless], &[ok, ok]];
    for script in scripts {
        for depth in [1, 4] {
            let asked = Requests { depth, warmup_ns: 0, ..base() };
            let observed = served(says(script), |server| go(&asked, server));
            assert_clean(&observed);
            let times = observed.answered / script.len() as u64;
            assert!(observed.reconnected + 2 >= times && times > 2, "{observed:?}");
        }
    }
}

#[test]
fn a_server_that_closes_without_an_answer_is_reported() {
    let shut = |_, mut stream: TcpStream| {
        request(&mut stream, &mut Vec::new());
    };
    let error = served(shut, |server| {
        run(&base(), server, &AtomicBool::new(false), || (), None).unwrap_err().to_string()
    });
    assert!(error.contains("does not speak http: it closes the connection"), "{error}");
    // In the middle of an answer nothing can be asked again.
    let half: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\nab",
    ];
    let observed = served(says(&half), |server| go(&base(), server));
    assert_balanced(&observed);
    assert!(observed.ended.unwrap().contains("it has closed a connection"));
}

#[test]
fn requests_are_what_was_asked_for() {
    let heads = Mutex::new(Vec::new());
    let keep = |_, mut stream: TcpStream| {
        let mut left = Vec::new();
        while let Some(one) = request(&mut stream, &mut left) {
            heads.lock().unwrap().push(one);
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    };
    let asked = Requests { duration_ns: 20_000_000, ..base() };
    for values in [Values::Fixed(0), Values::Fixed(10_000), Values::Etc] {
        let host = served(keep, |server| {
            let observed = go(&Requests { values, ..asked.clone() }, server);
            assert_clean(&observed);
            server
        });
        let observed = std::mem::take(&mut *heads.lock().unwrap());
        let method = if values == Values::Fixed(0) { "GET" } else { "POST" };
        let start = format!("{method} /a?b=c HTTP/1.1\r\nHost: {host}");
        assert!(observed.len() > 2 && observed.iter().all(|(head, _)| head.starts_with(&start)));
        let lens: std::collections::HashSet<usize> =
            observed.iter().map(|(_, body)| body.len()).collect();
        match values {
            Values::Fixed(len) => assert_eq!(lens, [len as usize].into()),
            Values::Etc => assert!(lens.len() > 1),
        }
    }
}

const CONFIGURATION: &str = "\
daemon off; master_process off; pid PLACE/pid; error_log PLACE/log; events {}
http { access_log off; keepalive_requests 100; server { listen 127.0.0.1:PORT;
location / { return 200 hello; } location /none { return 404; } } }
";

#[test]
fn a_real_nginx_answers_every_request() {
    let place = std::env::temp_dir().join(format!("niclab-nginx-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let file = place.join("nginx.conf");
    let port = free_port().port().to_string();
    let text = CONFIGURATION.replace("PLACE", place.to_str().unwrap()).replace("PORT", &port);
    std::fs::write(&file, text).unwrap();
    let test = "a_real_nginx_answers_every_request";
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    let arguments = ["-p", place.to_str().unwrap(), "-c", file.to_str().unwrap()];
    if let Some(real) = Real::start_at(test, "nginx", &arguments, address) {
        for depth in [1, 8] {
            let observed = go(&Requests { depth, ..base() }, real.address);
            assert_clean(&observed);
            // Each connection is for 100 requests.
            assert!(observed.reconnected >= observed.answered / 100 - 2, "{observed:?}");
        }
        let observed = go(&Requests { path: "/none".to_owned(), ..base() }, real.address);
        assert_eq!((observed.refused, observed.lost), (observed.answered, 0));
    }
    std::fs::remove_dir_all(&place).unwrap();
}
