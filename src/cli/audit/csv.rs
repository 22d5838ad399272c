//! Audit rows for a spreadsheet: every column, one row a line.
//!
//! Promises: nothing that a stranger sent is computed by a spreadsheet, or obeyed by a terminal. A cell that begins as a
//! formula does (`=`, `+`, `-`, `@`) gets an apostrophe before it; control characters come out escaped. Whoever wants the
//! text as it is stored takes `--json`.

use csv::WriterBuilder;

use super::super::failure::Failure;
use super::super::{rows, screen};
use crate::domain::json::{Json, Object};
use crate::store::RecordedEvent;

/// Knows whether the head was written.
#[derive(Default)]
pub(super) struct Csv {
    is_headed: bool,
}

impl Csv {
    /// The text of these rows, under their head the first time.
    pub(super) fn put(&mut self, events: &[RecordedEvent]) -> Result<String, Failure> {
        let mut writer = WriterBuilder::new().from_writer(Vec::new());
        if !self.is_headed {
            self.is_headed = true;
            writer.write_record(rows::COLUMNS).map_err(Failure::failed)?;
        }
        for event in events {
            let row = rows::event(event);
            let cells = row.as_object().into_iter().flat_map(Object::iter).map(|(_, value)| cell(value));
            writer.write_record(cells).map_err(Failure::failed)?;
        }
        let bytes = writer.into_inner().map_err(|error| Failure::failed(error.into_error()))?;
        String::from_utf8(bytes).map_err(Failure::failed)
    }
}

fn cell(value: &Json) -> String {
    let text = match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    };
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    screen::plain(&if is_formula { format!("'{text}") } else { text })
}
