//! What a plain answer's status says about whether a mutation ran.
//!
//! Promises: what nobody named is unknown. A status beats a class, and what the policy says beats what is assumed.

use super::provider::Provider;

/// What an answer makes of its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It is the answer: kept and replayed.
    Completes,
    /// The call certainly did not run: the key may try again.
    Releases,
    /// Nobody can say.
    Unknown,
}

/// What is named: one status, or the class of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Statuses {
    /// This one.
    One(u16),
    /// Those that begin with this digit.
    Class(u16),
}

impl Statuses {
    /// `"404"`, `"2xx"`; only what can end an exchange.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let found = match text.strip_suffix("xx") {
            Some(class) => Self::Class(class.parse().ok().filter(|_| class.len() == 1)?),
            None => Self::One(text.parse().ok().filter(|_| text.len() == 3)?),
        };
        (2..=5).contains(&found.class()).then_some(found)
    }

    /// Its first digit.
    pub(super) const fn class(self) -> u16 {
        match self {
            Self::One(status) => status / 100,
            Self::Class(class) => class,
        }
    }
}

/// As the policy writes it.
impl std::fmt::Display for Statuses {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(status) => write!(to, "{status}"),
            Self::Class(class) => write!(to, "{class}xx"),
        }
    }
}

/// What holds of the statuses that are named.
type Named = Vec<(Statuses, Meaning)>;

/// What each status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    said: Named,
    assumed: Named,
}

/// What any HTTP app means. 401, 405, 413 and 415 come before anything is done, and 408 says that the request was cut.
pub(super) const USUAL: [(Statuses, Meaning); 8] = [
    (Statuses::Class(2), Meaning::Completes),
    (Statuses::Class(3), Meaning::Completes),
    (Statuses::Class(4), Meaning::Completes),
    (Statuses::One(401), Meaning::Releases),
    (Statuses::One(405), Meaning::Releases),
    (Statuses::One(413), Meaning::Releases),
    (Statuses::One(415), Meaning::Releases),
    (Statuses::One(408), Meaning::Unknown),
];

impl Answers {
    /// What the policy says, over what the provider, or any app, means. A list that stands in the policy takes the place
    /// of the classes that are assumed for it.
    pub(super) fn new(
        completes: Option<&[Statuses]>,
        releases: Option<&[Statuses]>,
        provider: Option<Provider>,
    ) -> Self {
        let with = |list: Option<&[Statuses]>, meaning| {
            list.unwrap_or_default().iter().map(move |one| (*one, meaning)).collect::<Vec<_>>()
        };
        let said = [with(completes, Meaning::Completes), with(releases, Meaning::Releases)].concat();
        let mut assumed = provider.map_or_else(|| USUAL.to_vec(), Provider::answers);
        assumed.retain(|(statuses, meaning)| match (statuses, meaning) {
            (Statuses::Class(_), Meaning::Completes) => completes.is_none(),
            (Statuses::Class(_), Meaning::Releases) => releases.is_none(),
            (Statuses::Class(_), Meaning::Unknown) | (Statuses::One(_), _) => true,
        });
        Self { said, assumed }
    }

    /// What an answer with this status makes of its claim.
    pub fn of(&self, status: u16) -> Meaning {
        let one = Statuses::One(status);
        let class = Statuses::Class(one.class());
        let found =
            |named: &Named, wanted| named.iter().find(|(is, _)| *is == wanted).map(|(_, meaning)| *meaning);
        found(&self.said, one)
            .or_else(|| found(&self.assumed, one))
            .or_else(|| found(&self.said, class))
            .or_else(|| found(&self.assumed, class))
            .unwrap_or(Meaning::Unknown)
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self::new(None, None, None)
    }
}
