//! The life of one key, told: who sent what when, what was answered, what ran, and how it stands now.
//!
//! Promises: a story is told from the claim and its audit rows alone, so that the terminal and the console say the same
//! words; every reason that the gate writes has its sentence; where a retry brought other arguments, or came from another
//! user, its sentence says so.
//!
//! Absent on purpose: escaping, and the width of a page. What strangers sent stands in these texts as it was stored, which
//! is redacted.

pub mod next;
mod reasons;
mod sentence;
mod stands;
pub mod words;

use std::collections::BTreeMap;

use crate::domain::audit::Facts;
use crate::domain::ledger::{Claim, ClaimId};
use crate::domain::policy::Operation;
use crate::domain::time::Timestamp;
use crate::store::{AuditFilter, ClaimFilter, Cursor, RecordedEvent, Store, StoreError};

/// How many claims are looked at for one key.
const MOST_CLAIMS: u32 = 200;

/// How many moments are told from the beginning, and how many from the end.
const MOST_MOMENTS: u32 = 500;

/// Which key's life is meant. A key alone may have several stories (tenants, tools).
#[derive(Clone, Debug, Default)]
pub struct Of {
    /// Only this tenant's.
    pub tenant: Option<String>,
    /// Only this service's, and its listeners'.
    pub service: Option<String>,
    /// Only this operation's.
    pub tool: Option<String>,
    /// The key.
    pub key: String,
}

/// One key's life at one operation of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// Whose it is.
    pub id: ClaimId,
    /// The claim as it stands; none where it is gone, or never was.
    pub claim: Option<Claim>,
    /// What happened, oldest first.
    pub moments: Vec<Moment>,
    /// Behind how many of the moments others are left out, since there are too many; none where all are told.
    pub left_out_after: Option<usize>,
    /// The store's time when it was looked at.
    pub now: Timestamp,
}

/// One attempt, or one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Its audit row.
    pub row: RecordedEvent,
    /// What happened, in plain words.
    pub sentence: String,
}

impl Story {
    /// How it stands now, and what comes of it, in a sentence or two.
    pub fn stands(&self, operation: Option<&Operation>) -> String {
        stands::stands(self, operation)
    }

    /// The key that the app heard, where the claim still knows it.
    pub fn forwarded_key(&self) -> Option<&str> {
        self.claim.as_ref()?.facts.forwarded_key.as_deref()
    }
}

impl Moment {
    /// Who it was: user, tenant, session, client, protocol.
    pub fn who(&self) -> String {
        sentence::who(&self.row.event.facts)
    }
}

/// The stories that a key has, those first that began first.
pub async fn stories(store: &dyn Store, of: &Of) -> Result<Vec<Story>, StoreError> {
    let claims = ClaimFilter {
        tenant: of.tenant.clone(),
        service: of.service.clone(),
        tool: of.tool.clone(),
        key: Some(of.key.clone()),
        limit: MOST_CLAIMS,
        ..ClaimFilter::default()
    };
    // Before the rows: what a claim has become, its rows say then too.
    let claims = store.claims(&claims).await?;
    let (rows, gap) = rows(store, of).await?;
    let mut told: BTreeMap<ClaimId, (Option<Claim>, Vec<RecordedEvent>)> = BTreeMap::new();
    for found in claims {
        told.entry(found.id).or_default().0 = Some(found.claim);
    }
    for row in rows {
        told.entry(id(&row.event.facts)).or_default().1.push(row);
    }
    // Only for its time: where there is no story, there is none to tell.
    let Some(first) = told.keys().next() else { return Ok(Vec::new()) };
    let now = store.read(first).await?.now;
    let mut stories: Vec<Story> = told
        .into_iter()
        .map(|(id, (claim, rows))| {
            let left_out_after = gap.map(|gap| rows.iter().filter(|row| row.cursor() <= gap).count());
            let moments = sentence::moments(rows, claim.as_ref());
            Story { id, claim, moments, left_out_after, now }
        })
        .collect();
    stories.sort_by_key(|story| (began(story), story.id.clone()));
    Ok(stories)
}

/// The audit rows of a key, oldest first; where some were left out, behind which.
async fn rows(store: &dyn Store, of: &Of) -> Result<(Vec<RecordedEvent>, Option<Cursor>), StoreError> {
    let filter = AuditFilter {
        tenant: of.tenant.clone(),
        service: of.service.clone(),
        tool: of.tool.clone(),
        key: Some(of.key.clone()),
        limit: MOST_MOMENTS,
        ..AuditFilter::default()
    };
    let beginning = Some(Cursor::before(Timestamp::from_micros(0)));
    let mut rows = store.events(&AuditFilter { after: beginning, ..filter.clone() }).await?;
    let is_all = rows.len() < usize::try_from(MOST_MOMENTS).unwrap_or(usize::MAX);
    let Some(last) = rows.last().map(RecordedEvent::cursor).filter(|_| !is_all) else {
        return Ok((rows, None));
    };
    let newest = store.events(&filter).await?;
    // As many as that, one of them known: nothing is missing between.
    let meets = newest.first().is_none_or(|first| first.cursor() <= last);
    let gap = if meets {
        None
    } else {
        let between = AuditFilter { after: Some(last), limit: 1, ..filter };
        let next = store.events(&between).await?;
        (next.first().map(RecordedEvent::cursor) != newest.first().map(RecordedEvent::cursor)).then_some(last)
    };
    rows.extend(newest.into_iter().filter(|row| row.cursor() > last));
    Ok((rows, gap))
}

fn id(facts: &Facts) -> ClaimId {
    ClaimId {
        tenant: facts.tenant_id.clone(),
        service: facts.service.clone(),
        tool: facts.tool.clone(),
        key: facts.idempotency_key.clone().unwrap_or_default(),
    }
}

fn began(story: &Story) -> Option<Timestamp> {
    let claimed = story.claim.as_ref().map(|claim| claim.created_at);
    let told = story.moments.first().map(|moment| moment.row.at);
    claimed.into_iter().chain(told).min()
}
