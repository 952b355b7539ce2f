//! Checks the figures of a window of time.

use fathometer_analysis::load::{
    ByteCounts, Connections, Counts, Datagrams, Distribution, Ended, Frames, Handshakes, Latency,
    Window,
};

use super::{Checked, Limits, time};

impl Limits {
    pub(super) fn window(&self, window: &Window) -> Checked {
        let Window {
            duration,
            counts,
            bytes,
            latency,
            ended,
            connections,
            handshakes,
            frames,
            datagrams,
            paused,
        } = window;
        time("duration", *duration)?;
        self.of_counts(counts)?;
        self.bytes(bytes)?;
        self.latency(latency)?;
        self.ended(ended)?;
        self.connections(connections)?;
        self.handshakes(handshakes)?;
        self.frames(frames)?;
        self.datagrams(datagrams)?;
        self.total_time("pauses", *paused)
    }

    pub(super) fn of_counts(&self, counts: &Counts) -> Checked {
        let Counts {
            planned,
            sent,
            completed,
            statuses,
            failures,
            unfinished,
            wrong_size,
            retried,
            connects,
            connected,
            connect_failures,
            pages,
            page_connections,
            pages_failed,
            sessions,
        } = counts;
        let own = [planned, sent, completed, unfinished, wrong_size, retried];
        self.counts("counts of exchanges", own.map(|count| *count))?;
        let own = [connects, connected, pages, page_connections, pages_failed];
        self.counts("counts of connections and pages", own.map(|count| *count))?;
        self.counts("sessions", [*sessions])?;
        self.sum("counts by status", statuses.values().copied())?;
        self.sum("failures", failures.values().copied())?;
        self.sum("failed connections", connect_failures.values().copied())
    }

    fn bytes(&self, bytes: &ByteCounts) -> Checked {
        let ByteCounts {
            request_heads,
            request_fields,
            request_bodies,
            response_heads,
            response_fields,
            response_bodies,
            content,
            failed_responses,
        } = bytes;
        let requests = [request_heads, request_fields, request_bodies];
        let responses = [response_heads, response_fields, response_bodies];
        let own = requests.into_iter().chain(responses);
        let own = own.chain([content, failed_responses]);
        self.sum("bytes", own.map(|bytes| bytes.0))
    }

    fn latency(&self, latency: &Latency) -> Checked {
        let Latency {
            corrected,
            uncorrected,
            queue,
            send_lag,
            connect,
            tls,
            first_byte,
            transfer,
            page,
            failed,
        } = latency;
        let phases = [corrected, uncorrected, queue, send_lag, connect];
        self.counts("latencies", phases.map(Distribution::count))?;
        let phases = [tls, first_byte, transfer, page, failed];
        self.counts("latencies", phases.map(Distribution::count))
    }

    fn ended(&self, ended: &Ended) -> Checked {
        let Ended {
            completed,
            status_errors,
            failed,
            received,
            useful,
            connected,
            silent_from,
        } = *ended;
        time("last response", silent_from.unwrap_or_default())?;
        let own = [completed, status_errors, failed, connected];
        self.counts("counts of ended exchanges", own)?;
        self.counts("received bytes", [received.0, useful.0])
    }

    fn connections(&self, connections: &Connections) -> Checked {
        let Connections {
            closed_by_client,
            closed_by_server,
            failed,
            open,
            idle,
            life,
            exchanges,
        } = connections;
        let ended = [*closed_by_client, *closed_by_server, *failed];
        self.sum("ended connections", ended)?;
        self.total_time("time of connections", *open)?;
        self.total_time("time of connections", *idle)?;
        self.counts("lives of connections", [life.count(), exchanges.count()])
    }

    fn handshakes(&self, handshakes: &Handshakes) -> Checked {
        let Handshakes {
            full,
            resumed,
            early,
            early_refused,
            sent,
            received,
            certificates,
            cpu,
            agreed,
        } = handshakes;
        self.sum("handshakes", [*full, *resumed, *early, *early_refused])?;
        self.sum("bytes of handshakes", [sent.0, received.0, certificates.0])?;
        self.sum("handshakes", agreed.values().copied())?;
        self.total_time("CPU time of handshakes", *cpu)
    }

    fn frames(&self, frames: &Frames) -> Checked {
        let Frames {
            sent,
            received,
            most_streams: _,
            allowed_streams: _,
        } = frames;
        for counts in [sent, received] {
            let own = counts.values().flat_map(|own| [own.frames, own.bytes.0]);
            self.sum("frames", own)?;
        }
        Ok(())
    }

    fn datagrams(&self, datagrams: &Datagrams) -> Checked {
        let Datagrams {
            sent,
            sent_bytes,
            received,
            received_bytes,
            lost,
            overflowed,
            unsent,
            send_calls,
            receive_buffers,
            most_streams: _,
        } = *datagrams;
        self.sum("datagrams", [sent, received, lost, overflowed, unsent])?;
        self.sum("bytes of datagrams", [sent_bytes.0, received_bytes.0])?;
        self.sum("system calls", [send_calls, receive_buffers])
    }
}
