//! Plain HTTP requests, read: queries, forms, multipart bodies, JSON, and what is none of these.
//!
//! Promises: pure functions, but for [`scanned`], which reads a body as it passes. What is accepted here means one
//! thing to every backend that we know; what two of them read differently is refused, never repaired. Nothing is taken
//! out or put in: the bytes go on as they came.
//!
//! Absent on purpose: decisions about claims and tenants, and refusals' shapes.

pub mod content;
mod fields;
mod form;
mod media;
pub mod multipart;
mod names;
pub mod overrides;
pub mod query;
pub mod reading;
pub mod scanned;
mod told;

/// Appends `bytes` with their length before them, so that no two lists of pieces make the same bytes.
fn put(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The same of what may be absent, which is not the same as empty.
fn put_option(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    out.push(u8::from(bytes.is_some()));
    put(bytes.unwrap_or_default(), out);
}
