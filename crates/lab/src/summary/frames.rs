//! Sizes of frames, in words.

/// A frame size in words: `64 B frames`.
pub(crate) fn frame_words(frame: &str) -> String {
    match frame {
        "imix" => "IMIX frames".into(),
        "trace" => "the frames of the trace".into(),
        bytes => format!("{bytes} B frames"),
    }
}

/// One frame of a size in words: `a 64 B frame`.
pub(crate) fn a_frame(frame: &str) -> String {
    match frame {
        "imix" => "an IMIX frame".into(),
        "trace" => "a frame of the trace".into(),
        bytes => format!("a {bytes} B frame"),
    }
}
