//! Big-endian reads and writes by field, and the frame every view shares.

use std::ops::Range;

/// Where a field lies in its header, in bytes.
pub(crate) type FieldRange = Range<usize>;

/// The 2 bytes at `at` as a number.
pub(crate) fn read_u16(bytes: &[u8], at: FieldRange) -> u16 {
    u16::from_be_bytes(read_array(bytes, at))
}

/// The 4 bytes at `at` as a number.
pub(crate) fn read_u32(bytes: &[u8], at: FieldRange) -> u32 {
    u32::from_be_bytes(read_array(bytes, at))
}

/// The bytes at `at`, which must be `N` long.
pub(crate) fn read_array<const N: usize>(bytes: &[u8], at: FieldRange) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at]);
    array
}

/// Writes a number into the 2 bytes at `at`.
pub(crate) fn write_u16(bytes: &mut [u8], at: FieldRange, value: u16) {
    bytes[at].copy_from_slice(&value.to_be_bytes());
}

/// Writes a number into the 4 bytes at `at`.
pub(crate) fn write_u32(bytes: &mut [u8], at: FieldRange, value: u32) {
    bytes[at].copy_from_slice(&value.to_be_bytes());
}

/// Defines a view over bytes: the struct, its constructors and the way back to the bytes.
///
/// The file that uses it adds `check_len`, accessors and setters.
macro_rules! view {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<T: AsRef<[u8]>> {
            buffer: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// Takes `buffer` for this header without looking at it. Accessors panic if it is
            /// shorter than the header; `check_len` says whether they would.
            pub const fn new_unchecked(buffer: T) -> Self {
                Self { buffer }
            }

            /// Takes `buffer` for this header if `check_len` agrees.
            ///
            /// # Errors
            /// Those of `check_len`.
            pub fn new_checked(buffer: T) -> Result<Self, $crate::ParseError> {
                let view = Self { buffer };
                view.check_len()?;
                Ok(view)
            }

            /// All the bytes the view was made of.
            pub fn as_bytes(&self) -> &[u8] {
                self.buffer.as_ref()
            }

            /// Gives the buffer back.
            pub fn into_inner(self) -> T {
                self.buffer
            }
        }
    };
}
pub(crate) use view;
