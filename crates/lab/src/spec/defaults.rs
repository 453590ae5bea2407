//! The defaults of axes.

use crate::values::Values;

pub(crate) fn word(word: &str) -> Values {
    Values(vec![niclab_result::Coordinate::Word(word.into())])
}

pub(crate) fn none() -> Values {
    word("none")
}

pub(crate) fn one() -> Values {
    Values::number(1)
}

pub(crate) fn no_values() -> Values {
    Values(Vec::new())
}

pub(crate) fn zero() -> Values {
    Values::number(0)
}

pub(crate) fn flows_default() -> Values {
    Values::number(10_000)
}

pub(crate) fn frame_default() -> Values {
    Values::number(64)
}

pub(crate) fn ipv4() -> Values {
    word("ipv4")
}

pub(crate) fn here() -> Values {
    word("here")
}

pub(crate) fn closed() -> Values {
    word(crate::hosts::CLOSED)
}

pub(crate) fn no() -> Values {
    word("no")
}
