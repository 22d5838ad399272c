// The events of one legacy session, kept so that a client can come back for those that it missed.
//
// Promises: an event's id names its stream, and what is replayed is that stream's, in order, once.
// Absent on purpose: forgetting. A run is over before it would matter.
'use strict';

class Events {
    kept = [];

    async storeEvent(stream, message) {
        return String(this.kept.push({ stream, message }));
    }

    async getStreamIdForEventId(id) {
        return this.kept[Number(id) - 1]?.stream;
    }

    async replayEventsAfter(id, { send }) {
        const stream = await this.getStreamIdForEventId(id);
        for (let number = Number(id); number < this.kept.length; number += 1) {
            const { stream: of, message } = this.kept[number];
            // The first event of a stream holds no message.
            if (of === stream && Object.keys(message).length > 0) await send(String(number + 1), message);
        }
        return stream;
    }
}

module.exports = { Events };
