//! Packet accounting, statistics, claims, tables, figures and the report, from recorded files alone.
