use std::time::Duration;

/// Reads a duration as people write it: `90` and `1.5` are seconds, as for flock(1); `90s`, `5m`, `1h 30m`
/// are what they say.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| explain());
    }
    humantime::parse_duration(text).map_err(|_| explain())
}

fn explain() -> String {
    "write seconds (90, 0.5) or a duration (90s, 5m, 1h 30m)".into()
}

/// A duration in few characters: tenths of a second below ten seconds, whole units above.
pub(crate) fn short(length: Duration) -> String {
    if length < Duration::from_secs(10) {
        return format!("{:.1}s", length.as_secs_f64());
    }
    humantime::format_duration(Duration::from_secs(length.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_is_seconds_and_units_are_units() {
        for (text, millis) in [
            ("90", 90_000),
            ("0.25", 250),
            ("0", 0),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h 30m", 5_400_000),
            ("250ms", 250),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_told_what_is_allowed() {
        for text in [
            "",
            "-1",
            "NaN",
            "inf",
            "1e300",
            "soon",
            "5 parsecs",
            "99999999999999999999y",
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains("90s, 5m"), "{text}: {message}");
        }
    }

    #[test]
    fn short_durations_keep_their_tenths() {
        assert_eq!(short(Duration::from_millis(1250)), "1.2s");
        assert_eq!(short(Duration::from_millis(61_900)), "1m 1s");
    }
}
