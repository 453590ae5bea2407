//! Requests and answers of HTTP/1.1 (RFC 9112), as bytes: `GET /metrics`, and nothing else.

use super::families::Format;

/// Longest head of a request, bytes.
pub const HEAD_LEN_MAX: usize = 8 << 10;

/// Most header fields of a request.
const FIELDS_MAX: usize = 64;

/// A request for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsRequest {
    /// How they are to be written.
    pub format: Format,
    /// `HEAD`: the answer has no content.
    pub is_head: bool,
}

/// Why a request has another answer than metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRefusal {
    /// It is no HTTP.
    Malformed,
    /// Another path.
    NotFound,
    /// Another method.
    Method,
    /// Its head is too long.
    HeadTooLong,
    /// The card gave no counters in time.
    Unavailable,
}

/// Reads a request; `None` where its head is not whole yet.
pub fn read(bytes: &[u8]) -> Option<Result<MetricsRequest, HttpRefusal>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => Some(wanted(&request)),
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_LEN_MAX => {
            Some(Err(HttpRefusal::HeadTooLong))
        }
        Ok(httparse::Status::Partial) => None,
        Err(httparse::Error::TooManyHeaders) => Some(Err(HttpRefusal::HeadTooLong)),
        Err(_) => Some(Err(HttpRefusal::Malformed)),
    }
}

fn wanted(request: &httparse::Request<'_, '_>) -> Result<MetricsRequest, HttpRefusal> {
    let (method, target) = request.method.zip(request.path).ok_or(HttpRefusal::Malformed)?;
    if path(target) != "/metrics" {
        return Err(HttpRefusal::NotFound);
    }
    if !matches!(method, "GET" | "HEAD") {
        return Err(HttpRefusal::Method);
    }
    let accepts = request.headers.iter().filter(|of| of.name.eq_ignore_ascii_case("accept"));
    let mut accepts = accepts.map(|of| String::from_utf8_lossy(of.value).to_ascii_lowercase());
    let format = match accepts.any(|types| types.contains("application/openmetrics-text")) {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    };
    Ok(MetricsRequest { format, is_head: method == "HEAD" })
}

/// The path of a target, which may be a whole URI (RFC 9112, section 3.2.2), without its query.
fn path(target: &str) -> &str {
    let behind = target.strip_prefix("http://");
    let path = behind.map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
    path.split('?').next().unwrap_or(path)
}

/// The answer with these metrics.
pub fn found(request: MetricsRequest, metrics: &str) -> Vec<u8> {
    let content = if request.is_head { "" } else { metrics };
    let kind = request.format.content_type();
    (head("200 OK", kind, metrics.len(), "") + content).into_bytes()
}

/// The answer to a request that is refused.
pub fn refused(refusal: HttpRefusal) -> Vec<u8> {
    let (status, more, content) = match refusal {
        HttpRefusal::Malformed => ("400 Bad Request", "", "This is no HTTP/1.1 request.\n"),
        HttpRefusal::NotFound => ("404 Not Found", "", "The metrics are at /metrics.\n"),
        HttpRefusal::Method => ("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "Use GET.\n"),
        HttpRefusal::HeadTooLong => {
            ("431 Request Header Fields Too Large", "", "The header fields are too long.\n")
        }
        HttpRefusal::Unavailable => {
            ("503 Service Unavailable", "Retry-After: 1\r\n", "The card is busy: try again.\n")
        }
    };
    (head(status, "text/plain; charset=utf-8", content.len(), more) + content).into_bytes()
}

fn head(status: &str, content_type: &str, content_len: usize, more: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {content_len}\r\n\
         {more}Connection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: MetricsRequest = MetricsRequest { format: Format::Prometheus, is_head: false };

    #[test]
    fn a_request_for_the_metrics_is_read() {
        let open = MetricsRequest { format: Format::OpenMetrics, is_head: false };
        for (text, request) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", PLAIN),
            ("GET /metrics HTTP/1.0\r\n\r\n", PLAIN),
            ("GET /metrics?name=a HTTP/1.1\r\nAccept: text/plain\r\n\r\n", PLAIN),
            ("GET http://a:9400/metrics HTTP/1.1\r\nHost: a\r\n\r\n", PLAIN),
            (
                "GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0;\
                 q=0.5,*/*;q=0.1\r\n\r\n",
                open,
            ),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", MetricsRequest { is_head: true, ..PLAIN }),
        ] {
            assert_eq!(read(text.as_bytes()), Some(Ok(request)), "{text}");
            // It is not answered before its head is whole.
            let lens = 1..text.len();
            assert!(lens.map(|len| read(&text.as_bytes()[..len])).all(|read| read.is_none()));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let fields = |count: usize| "a: b\r\n".repeat(count);
        for (text, refusal) in [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), HttpRefusal::NotFound),
            ("POST /metrics HTTP/1.1\r\n\r\n".to_owned(), HttpRefusal::Method),
            ("POST /other HTTP/1.1\r\n\r\n".to_owned(), HttpRefusal::NotFound),
            ("GET /metrics/ HTTP/1.1\r\n\r\n".to_owned(), HttpRefusal::NotFound),
            ("GET /../metrics HTTP/1.1\r\n\r\n".to_owned(), HttpRefusal::NotFound),
            ("GET http://a HTTP/1.1\r\n\r\n".to_owned(), HttpRefusal::NotFound),
            ("OPTIONS * HTTP/1.1\r\n\r\n".to_owned(), HttpRefusal::NotFound),
            ("GET /metrics HTTP/2.0\r\n\r\n".to_owned(), HttpRefusal::Malformed),
            ("GET /metrics\r\n\r\n".to_owned(), HttpRefusal::Malformed),
            ("get stats\r\n".to_owned(), HttpRefusal::Malformed),
            ("\u{16}\u{3}\u{1}".to_owned(), HttpRefusal::Malformed),
            ("GET /metrics HTTP/1.1\r\na b: c\r\n\r\n".to_owned(), HttpRefusal::Malformed),
            (format!("GET / HTTP/1.1\r\n{}\r\n", fields(65)), HttpRefusal::HeadTooLong),
            (format!("GET /{}", "a".repeat(HEAD_LEN_MAX)), HttpRefusal::HeadTooLong),
        ] {
            assert_eq!(read(text.as_bytes()), Some(Err(refusal)), "{text:.60}");
        }
    }

    #[test]
    fn an_answer_has_its_length_and_no_content_for_head() {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let answer = text(found(PLAIN, "a 1\n"));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"));
        assert!(answer.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n"));
        let answer = text(found(MetricsRequest { is_head: true, ..PLAIN }, "a 1\n"));
        assert!(answer.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\n"), "{answer}");
        let answer = text(refused(HttpRefusal::Method));
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nAllow: GET, HEAD\r\n"));
        assert!(text(refused(HttpRefusal::Unavailable)).contains("\r\nRetry-After: 1\r\n"));
    }
}
