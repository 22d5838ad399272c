//! What is wrong with a body that is no multipart, in words for whoever sent it.

use crate::domain::refusal::Refusal;

/// Why a body was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipartFault {
    /// Something else than the first boundary.
    #[error("it does not begin with its boundary")]
    Preamble,
    /// Something after the last boundary.
    #[error("something follows its last boundary")]
    Epilogue,
    /// It does not come to its last boundary.
    #[error("it ends before its last boundary")]
    CutShort,
    /// The boundary as part of something else.
    #[error("its boundary stands where no part can end")]
    Boundary,
    /// A carriage return or a line feed alone.
    #[error("a line of a part's header does not end with CR LF")]
    LineEnd,
    /// More header than is read.
    #[error("the header of a part is longer than 8 KiB")]
    HeaderTooLong,
    /// A line that is no header field.
    #[error("a part has a header that is not well formed")]
    Header,
    /// A header that stands twice.
    #[error("a part has a header twice")]
    Twice,
    /// No `Content-Disposition`, or none with a name.
    #[error("a part has no name")]
    Nameless,
    /// A `Content-Disposition` that readers take apart differently.
    #[error("a part's Content-Disposition is none of form-data in its plain form")]
    Disposition,
    /// A part that is a multipart itself, or whose type is not well formed.
    #[error("a part's Content-Type is not one that a form may hold")]
    Media,
    /// A part in an encoding that some decode and some do not.
    #[error("a part is encoded")]
    Encoded,
    /// A part whose header says another length than it has.
    #[error("a part is not as long as its Content-Length says")]
    Length,
}

impl From<MultipartFault> for Refusal {
    fn from(fault: MultipartFault) -> Self {
        Self::BodyUnreadable { detail: fault.to_string() }
    }
}
