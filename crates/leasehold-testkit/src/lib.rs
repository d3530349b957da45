//! Conformance suite and faulty stores.
