//! Frames as text of a JSON document: base64 (RFC 4648, section 4).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

fn decoded<E: Error>(text: &str) -> Result<Vec<u8>, E> {
    STANDARD.decode(text).map_err(|error| E::custom(format!("a frame in base64: {error}")))
}

/// A frame, for `#[serde(with)]`.
pub mod one {
    use serde::Serializer;

    use super::*;

    pub fn serialize<S: Serializer>(frame: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(frame))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        decoded(&String::deserialize(from)?)
    }
}

/// Frames, for `#[serde(with)]`.
pub mod all {
    use serde::Serializer;

    use super::*;

    pub fn serialize<S: Serializer>(frames: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(frames.iter().map(|frame| STANDARD.encode(frame)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
        Vec::<String>::deserialize(from)?.iter().map(|text| decoded(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::two_hosts::{ExchangedFrames, FarAnswer, FarRequest, HalfTask};

    #[test]
    fn frames_are_written_as_text() {
        let frames = || vec![vec![0, 255], Vec::new()];
        let of_json = |text: &str| serde_json::from_str::<HalfTask>(text);
        let task = HalfTask::Exchange { frames: frames() };
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(text, r#"{"exchange":{"frames":["AP8=",""]}}"#);
        assert_eq!(of_json(&text).unwrap(), task);
        assert!(of_json(&text.replace("AP8=", "AP8")).unwrap_err().to_string().contains("base64"));
        let request = FarRequest::Send(vec![0, 255]);
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(text, r#"{"send":"AP8="}"#);
        assert_eq!(serde_json::from_str::<FarRequest>(&text).unwrap(), request);
        let answer = FarAnswer::Received(frames());
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<FarAnswer>(&text).unwrap(), answer);
        let exchanged = ExchangedFrames { sent: 1, received: frames() };
        let text = serde_json::to_string(&exchanged).unwrap();
        assert_eq!(serde_json::from_str::<ExchangedFrames>(&text).unwrap(), exchanged);
    }
}
