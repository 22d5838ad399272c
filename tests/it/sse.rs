//! Server-sent events, read in any chunks.

use oncegate::mcp::sse::{Decoder, Event, KEEP_ALIVE, SseFault};
use proptest::prelude::*;

const LIMIT: usize = 64;

fn event(name: &str, data: &str) -> Event {
    Event { name: name.to_owned(), ..Event::message(data) }
}

/// Every event, and the fault that ended the stream if one did.
fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Option<SseFault>) {
    let mut decoder = Decoder::new(LIMIT);
    let mut events = Vec::new();
    for chunk in chunks {
        match decoder.feed(chunk) {
            Ok(more) => events.extend(more),
            Err(fault) => return (events, Some(fault)),
        }
    }
    (events, decoder.feed(b"").err())
}

#[track_caller]
fn check(stream: impl AsRef<[u8]>, events: &[Event]) {
    assert_eq!(read([stream.as_ref()]), (events.to_vec(), None));
}

#[track_caller]
fn check_fault(stream: impl AsRef<[u8]>, before: usize, fault: SseFault) {
    let (events, met) = read([stream.as_ref()]);
    assert_eq!((events.len(), met), (before, Some(fault)));
}

#[test]
fn an_event_ends_at_a_blank_line_whatever_ends_the_lines() {
    for end in ["\n", "\r\n", "\r"] {
        check(
            ["event: one", "data: a", "data", "data:  b", "", "data: c", "", ""].join(end),
            &[event("one", "a\n\n b"), event("message", "c")],
        );
    }
    check("data: a\r\n\rdata: b\n\r\n", &[event("message", "a"), event("message", "b")]);
}

#[test]
fn what_the_end_of_the_stream_cuts_is_dropped() {
    check("data: a\n\ndata: b\n", &[event("message", "a")]);
    check("data: a", &[]);
}

#[test]
fn comments_unknown_fields_and_blocks_that_say_nothing_are_no_events() {
    check(": hello\n\n:\n\nfoo: bar\n\nevent: x\n\n", &[]);
    check(KEEP_ALIVE, &[]);
    // An event type does not outlive its block.
    check("event: x\n\ndata: a\n\n", &[event("message", "a")]);
    check("data:\n\n", &[event("message", "")]);
}

#[test]
fn ids_and_retry_times_are_read() {
    let full = Event { id: Some("7".to_owned()), retry: Some(3000), ..event("message", "") };
    check("id: 7\nretry: 3000\ndata:\n\n", std::slice::from_ref(&full));
    check("id: 7\nid: a\0b\nretry: 3000\nretry: soon\ndata\n\n", std::slice::from_ref(&full));
    // A server may only say where to go on from, and when: a reader that resumes must know.
    check("id: 7\nretry: 3000\n\n", &[Event { data: None, ..full }]);
}

#[test]
fn a_byte_order_mark_is_taken_at_the_start_only() {
    check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &[event("message", "a")]);
}

#[test]
fn events_are_bounded_and_what_came_before_still_counts() {
    let too_large = SseFault::TooLarge { limit: LIMIT };
    check(format!("data: {}\n\n", "x".repeat(LIMIT - 6)), &[event("message", &"x".repeat(LIMIT - 6))]);
    check_fault(format!("data: a\n\ndata: {}\n\n", "x".repeat(LIMIT - 5)), 1, too_large);
    check_fault("data: 0123456789\n".repeat(6), 0, too_large);
    check_fault("data\n".repeat(100), 0, too_large);
    check_fault(format!(":{}", "x".repeat(LIMIT)), 0, too_large);
    check(": a comment of some length\n".repeat(100), &[]);
}

#[test]
fn what_is_not_utf_8_is_a_fault_and_not_another_character() {
    check_fault(b"data: a\n\ndata: \xff\n\ndata: b\n\n", 1, SseFault::NotUtf8);
    check(b": \xff\n\n", &[]);
}

#[test]
fn a_fault_is_told_by_every_later_call() {
    let mut decoder = Decoder::new(LIMIT);
    assert_eq!(decoder.feed(b"data: a\n\ndata: \xff\n").unwrap().len(), 1);
    assert_eq!(decoder.feed(b"data: b\n\n"), Err(SseFault::NotUtf8));
    assert_eq!(decoder.feed(b""), Err(SseFault::NotUtf8));
}

#[test]
fn an_event_is_written_as_it_is_read() {
    assert_eq!(Event::message("{\"a\":1}").encode(), b"event: message\ndata: {\"a\":1}\n\n");
    assert_eq!(event("a\nb", "1\r\n2\r3\n").encode(), b"event: ab\ndata: 1\ndata: 2\ndata: 3\ndata: \n\n");
    let with_id = Event { id: Some("7".to_owned()), retry: Some(50), ..Event::message("") };
    assert_eq!(with_id.encode(), b"event: message\nid: 7\nretry: 50\ndata: \n\n");
    assert_eq!(Event { data: None, ..with_id }.encode(), b"id: 7\nretry: 50\n\n");
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(
        lines in prop::collection::vec(
            prop_oneof![
                Just(String::new()),
                Just("\u{feff}".to_owned()),
                "(data|event|id|retry|x)?:? ?[a-z0-9é€😀]{0,9}",
                ": ?[é€]{0,6}",
            ],
            0..30,
        ),
        ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "\r\r"]), 30),
        broken in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let text: String = lines.iter().zip(ends).flat_map(|(line, end)| [line.as_str(), end]).collect();
        let mut stream = text.into_bytes();
        if let Some(at) = broken.filter(|_| !stream.is_empty()).map(|index| index.index(stream.len())) {
            stream[at] = 0xff;
        }
        let whole = read([stream.as_slice()]);
        prop_assert_eq!(&read(stream.chunks(1)), &whole);
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.sort_unstable();
        places.push(stream.len());
        let mut from = 0;
        let chunks: Vec<&[u8]> = places
            .into_iter()
            .map(|to| {
                let chunk = &stream[from..to];
                from = to;
                chunk
            })
            .collect();
        prop_assert_eq!(&read(chunks), &whole);
    }

    #[test]
    fn what_is_written_is_read_again(
        data in prop::option::of("[a-zé\n ]{0,16}"),
        id in prop::option::of("[a-z0-9]{0,9}"),
        retry in prop::option::of(any::<u32>()),
    ) {
        let retry = retry.map(u64::from);
        let written = Event { data, id, retry, ..Event::message("") };
        let says = written.data.is_some() || written.id.is_some() || retry.is_some();
        let stream = written.encode();
        let expected = if says { vec![written] } else { vec![] };
        prop_assert_eq!(read([stream.as_slice()]), (expected, None));
    }
}
