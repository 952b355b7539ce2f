//! Images to make by ImageMagick: names and arguments.

/// Photographs, drawings, grey ones and transparent ones, with odd numbers of pixels.
pub const SOURCES: [(&str, &[&str]); 8] = [
    (
        "photograph.png",
        &["-size", "151x109", "plasma:fractal", "-depth", "8"],
    ),
    (
        "photograph.jpg",
        &["-size", "120x90", "plasma:fractal", "-quality", "95"],
    ),
    (
        "colours.png",
        &["-size", "75x61", "plasma:lime-magenta", "-depth", "8"],
    ),
    (
        "grey.jpg",
        &["-size", "97x61", "plasma:fractal", "-colorspace", "Gray"],
    ),
    (
        "drawing.gif",
        &[
            "-size",
            "120x81",
            "xc:white",
            "-fill",
            "red",
            "-draw",
            "circle 60,40 60,5",
            "-colors",
            "16",
        ],
    ),
    (
        "transparent.gif",
        &[
            "-size",
            "63x48",
            "xc:none",
            "-fill",
            "navy",
            "-draw",
            "roundrectangle 5,5 50,40 9,9",
            "-colors",
            "200",
        ],
    ),
    (
        "grey-alpha.png",
        &[
            "-size",
            "60x60",
            "radial-gradient:black-white",
            "-alpha",
            "copy",
            "-depth",
            "8",
        ],
    ),
    (
        "alpha.png",
        &[
            "-size",
            "60x57",
            "plasma:red-blue",
            "(",
            "-size",
            "60x57",
            "radial-gradient:white-black",
            ")",
            "-alpha",
            "off",
            "-compose",
            "CopyOpacity",
            "-composite",
            "-depth",
            "8",
        ],
    ),
];
