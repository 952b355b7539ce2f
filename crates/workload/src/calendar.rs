//! Days of the Gregorian calendar.

/// Days from 1 January 1970 to a date in the years 1970 to 9999; `None` when the date does not exist.
pub(crate) fn days(year: i64, month: i64, day: i64) -> Option<i64> {
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
    fn days_follow_each_other() {
        let mut expected = 0;
        for year in 1970..2410 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(number) = days(year, month, day) {
                        assert_eq!(number, expected, "{year}-{month}-{day}");
                        expected += 1;
                    }
                }
            }
        }
    }
}
