//! A multipart body that is looked through while it passes.
//!
//! Promises: every byte passes as it came, or the body ends in an error and never comes whole: where a part names another
//! method or a foreign tenant, and where it is no multipart. For that its last piece is held back until its end was seen,
//! and a tenant's name until it was seen whole: there are backends that run what they have of a body that was cut.
//! Trailers stay here.
//!
//! Absent on purpose: a limit. In memory are one piece as the connection brought it, a part's header, and a tenant's name.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::content::refuse_method;
use super::multipart::{Boundary, Event, Parser};
use super::names::{Readings, plain};
use crate::domain::refusal::Refusal;

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScanFault {
    /// It may not pass.
    #[error("the body was refused")]
    Refused,
    /// It did not come whole.
    #[error("the body did not come whole")]
    Cut(#[source] Box<dyn Error + Send + Sync>),
}

/// What was found in a body, for whoever has to answer for it.
#[derive(Clone, Debug, Default)]
pub struct Finding(Arc<OnceLock<Refusal>>);

impl Finding {
    /// Why the body was cut; nothing while nothing was found.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.0.get()
    }
}

/// Whose parts may pass.
#[derive(Clone, Debug, Default)]
pub struct Tenancy {
    /// Names of fields that hold a tenant.
    pub names: Vec<String>,
    /// The actor's.
    pub tenant: String,
}

/// The body.
#[derive(Debug)]
pub struct Scanned<B> {
    inner: Pin<Box<B>>,
    /// None once the end was seen.
    scanner: Option<Scanner>,
    /// What was looked through and has not passed.
    held: VecDeque<Bytes>,
    /// So many of these may pass.
    free: usize,
    finding: Finding,
    is_empty: bool,
}

#[derive(Debug)]
struct Scanner {
    parser: Parser,
    tenancy: Tenancy,
    /// The content so far of a part that has to be the tenant.
    named: Option<Vec<u8>>,
}

impl<B: Body<Data = Bytes>> Scanned<B> {
    /// Of a body with this boundary.
    pub fn new(inner: B, boundary: Boundary, tenancy: Tenancy) -> Self {
        let is_empty = inner.is_end_stream();
        let scanner = Scanner { parser: Parser::new(boundary), tenancy, named: None };
        let (held, finding) = (VecDeque::new(), Finding::default());
        let scanner = (!is_empty).then_some(scanner);
        Self { inner: Box::pin(inner), scanner, held, free: 0, finding, is_empty }
    }

    /// Where it will stand what was found.
    pub fn finding(&self) -> Finding {
        self.finding.clone()
    }

    /// Ends the body: what was held back is never sent.
    fn refuse(&mut self, refusal: Refusal) -> Poll<Option<Result<Frame<Bytes>, ScanFault>>> {
        self.stop();
        // The first finding stands: there is no second, since nothing is read after it.
        let _first = self.finding.0.set(refusal).is_ok();
        Poll::Ready(Some(Err(ScanFault::Refused)))
    }
}

impl<B> Scanned<B> {
    fn stop(&mut self) {
        self.scanner = None;
        self.held.clear();
        self.free = 0;
    }
}

impl Scanner {
    /// Whether what was read ends in a part that has to be the tenant.
    fn scan(&mut self, bytes: &[u8]) -> Result<bool, Refusal> {
        let Self { parser, tenancy, named } = self;
        parser.feed(bytes, &mut |event| {
            match event {
                Event::Named(name) => {
                    refuse_method(name)?;
                    let readings = Readings::of(name.as_bytes());
                    *named = tenancy.names.iter().any(|name| readings.include(&plain(name))).then(Vec::new);
                }
                Event::Begins(_) => {}
                Event::Content(content) => {
                    if let Some(named) = named {
                        named.extend_from_slice(content);
                        if !tenancy.tenant.as_bytes().starts_with(named) {
                            return Err(Refusal::ForeignTenant);
                        }
                    }
                }
                Event::Ends => {
                    if named.take().is_some_and(|named| named != tenancy.tenant.as_bytes()) {
                        return Err(Refusal::ForeignTenant);
                    }
                }
            }
            Ok::<_, Refusal>(())
        })?;
        Ok(named.is_some())
    }
}

impl<B> Body for Scanned<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    type Data = Bytes;
    type Error = ScanFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ScanFault>>> {
        loop {
            if self.free > 0 {
                self.free -= 1;
                return Poll::Ready(self.held.pop_front().map(|bytes| Ok(Frame::data(bytes))));
            }
            if self.scanner.is_none() {
                return Poll::Ready(None);
            }
            let bytes = match ready!(self.inner.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(fault)) => {
                    self.stop();
                    return Poll::Ready(Some(Err(ScanFault::Cut(fault.into()))));
                }
                None => {
                    // No byte at all is no body, whatever its type.
                    let scanner = self.scanner.take().filter(|_| !self.held.is_empty());
                    let finished = scanner.map_or(Ok(()), |scanner| scanner.parser.finish());
                    if let Err(fault) = finished {
                        return self.refuse(fault.into());
                    }
                    self.free = self.held.len();
                    continue;
                }
            };
            if bytes.is_empty() {
                continue;
            }
            let scanned = self.scanner.as_mut().map_or(Ok(false), |scanner| scanner.scan(&bytes));
            match scanned {
                Ok(in_doubt) => {
                    self.free = if in_doubt { 0 } else { self.held.len() };
                    self.held.push_back(bytes);
                }
                Err(refusal) => return self.refuse(refusal),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty || (self.scanner.is_none() && self.held.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.iter().map(Bytes::len).sum::<usize>() as u64;
        let rest = self.inner.size_hint();
        let mut size = SizeHint::new();
        size.set_lower(rest.lower().saturating_add(held));
        if let Some(upper) = rest.upper() {
            size.set_upper(upper.saturating_add(held));
        }
        size
    }
}
