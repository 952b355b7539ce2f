//! The code, and the tables that are built from it.

/// The length of each symbol's code in bits (RFC 7541 appendix B); the last symbol is the end of a string.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The number of bits in one table look-up.
pub(super) const LOOK_UP_BITS: u32 = 10;
const SHORTEST: u8 = 5;
const LONGEST: u8 = 30;
/// The number of code lengths above `LOOK_UP_BITS`.
const LONG_LENGTHS: usize = 16;

const SORTED: [u16; 257] = symbols();
const NUMBERS: [u32; 257] = codes();

/// Each symbol's code, in the low bits, and its length.
pub(super) static CODES: [(u32, u8); 257] = codes_and_lengths();
/// The symbols in the order of their codes.
pub(super) static SYMBOLS: [u16; 257] = SORTED;
/// For each value of the first ten bits, the code at the start of these bits.
pub(super) static SHORT: [Short; 1 << LOOK_UP_BITS] = short();
/// The longer codes, by length.
pub(super) static LONG: [Group; LONG_LENGTHS] = long();

#[derive(Debug, Clone, Copy)]
pub(super) struct Short {
    pub symbol: u8,
    /// Zero: the code is longer than `LOOK_UP_BITS`.
    pub length: u8,
}

/// The codes of one length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub length: u8,
    /// The first code, followed by zeros to 32 bits.
    pub first: u32,
    /// The last code, followed by ones to 32 bits.
    pub last: u32,
    /// The position of the first symbol of this length among all symbols.
    pub place: u16,
}

const fn symbols() -> [u16; 257] {
    let mut sorted = [0; 257];
    let (mut count, mut length) = (0, SHORTEST);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] == length {
                sorted[count] = symbol as u16;
                count += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    sorted
}

const fn codes() -> [u32; 257] {
    let mut codes = [0; 257];
    let (mut place, mut code, mut before) = (0, 0u32, SHORTEST);
    while place < 257 {
        let symbol = SORTED[place] as usize;
        code <<= LENGTHS[symbol] - before;
        before = LENGTHS[symbol];
        codes[symbol] = code;
        code += 1;
        place += 1;
    }
    codes
}

const fn codes_and_lengths() -> [(u32, u8); 257] {
    let mut pairs = [(0, 0); 257];
    let mut symbol = 0;
    while symbol < 257 {
        pairs[symbol] = (NUMBERS[symbol], LENGTHS[symbol]);
        symbol += 1;
    }
    pairs
}

const fn short() -> [Short; 1 << LOOK_UP_BITS] {
    let nothing = Short {
        symbol: 0,
        length: 0,
    };
    let mut table = [nothing; 1 << LOOK_UP_BITS];
    let mut symbol = 0;
    while symbol < 256 {
        let length = LENGTHS[symbol] as u32;
        if length <= LOOK_UP_BITS {
            let free = LOOK_UP_BITS - length;
            let mut rest = 0;
            while rest < 1 << free {
                table[(NUMBERS[symbol] << free | rest) as usize] = Short {
                    symbol: symbol as u8,
                    length: length as u8,
                };
                rest += 1;
            }
        }
        symbol += 1;
    }
    table
}

const fn long() -> [Group; LONG_LENGTHS] {
    let nothing = Group {
        length: 0,
        first: 0,
        last: 0,
        place: 0,
    };
    let mut groups = [nothing; LONG_LENGTHS];
    let (mut count, mut place) = (0, 0);
    while place < 257 {
        let symbol = SORTED[place] as usize;
        let length = LENGTHS[symbol];
        if length as u32 > LOOK_UP_BITS {
            let free = 32 - length as u32;
            if count == 0 || groups[count - 1].length != length {
                groups[count] = Group {
                    length,
                    first: NUMBERS[symbol] << free,
                    last: 0,
                    place: place as u16,
                };
                count += 1;
            }
            groups[count - 1].last = NUMBERS[symbol] << free | ((1 << free) - 1);
        }
        place += 1;
    }
    assert!(count == LONG_LENGTHS);
    groups
}
