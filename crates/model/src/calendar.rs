//! Dates of the Gregorian calendar in UTC, and day numbers counted from 1 January 1970.

/// Returns the number of days from 1 January 1970 to a date in the years 1970 to 9999; `None` if the date does not
/// exist.
pub fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [
        31,
        28 + i64::from(is_leap),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if !(1970..=9999).contains(&year) || !(1..=length).contains(&day) {
        return None;
    }
    let before = year - 1;
    // Leap days of all years before this one, minus those before 1970.
    let leap_days = before / 4 - before / 100 + before / 400 - 477;
    let in_year: i64 = lengths[..(month - 1) as usize].iter().sum();
    Some((year - 1970) * 365 + leap_days + in_year + day - 1)
}

/// Returns the year, month and day of a day number counted from 1 January 1970.
///
/// Years are counted from March, so that a leap day is the last day of a year. The calendar repeats every 400 years
/// (Howard Hinnant, "chrono-compatible low-level date algorithms").
pub fn date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    // Add the days from 1 March of the year 0 to 1 January 1970.
    let days = days + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / (ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let (month, day) = (march + 3, day - (153 * march + 2) / 5 + 1);
    let year = 400 * era + year;
    if month > 12 {
        (year + 1, month - 12, day)
    } else {
        (year, month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_numbers() {
        assert_eq!(days(1970, 1, 1), Some(0));
        assert_eq!(days(2000, 3, 1), Some(11_017));
        assert_eq!(days(2026, 11, 21), Some(20_778));
        assert_eq!(days(2100, 2, 29), None);
        assert_eq!(days(2000, 13, 1), None);
        assert_eq!(days(2000, 0, 1), None);
    }

    #[test]
    fn known_numbers_have_their_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(10_045), (1997, 7, 3));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_778), (2026, 11, 21));
    }

    #[test]
    fn days_follow_each_other() {
        let mut expected = 0;
        for year in 1970..2410 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(number) = days(year, month, day) {
                        assert_eq!(number, expected, "{year}-{month}-{day}");
                        let back = date(number as u64);
                        assert_eq!(back, (year as u64, month as u64, day as u64));
                        expected += 1;
                    }
                }
            }
        }
    }
}
