//! Small systems of linear equations.

/// Solves `matrix` x = `right` by elimination with partial pivoting; `None` if the matrix is singular to working
/// precision.
pub(crate) fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    let scale = matrix
        .iter()
        .flatten()
        .fold(0.0f64, |most, x| most.max(x.abs()));
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| {
            let size = |row: usize| matrix[row][column].abs();
            size(a).total_cmp(&size(b))
        })?;
        let found = matrix[pivot][column].abs();
        if !found.is_finite() || found <= 1e-13 * scale {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (upper, lower) = matrix.split_at_mut(column + 1);
        let pivot_row = &upper[column];
        for (offset, row) in lower.iter_mut().enumerate() {
            let factor = row[column] / pivot_row[column];
            for (entry, above) in row.iter_mut().zip(pivot_row).skip(column) {
                *entry -= factor * above;
            }
            right[column + 1 + offset] -= factor * right[column];
        }
    }
    let mut solution = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| matrix[row][k] * solution[k]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    Some(solution)
}

/// Returns the inverse of a matrix; `None` if the matrix is singular to working precision.
pub(crate) fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let columns: Option<Vec<Vec<f64>>> = (0..n)
        .map(|k| {
            let unit = (0..n).map(|row| f64::from(u8::from(row == k))).collect();
            solve(matrix.to_vec(), unit)
        })
        .collect();
    let columns = columns?;
    Some(
        (0..n)
            .map(|row| (0..n).map(|k| columns[k][row]).collect())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inverse_times_its_matrix_is_the_unit() {
        let matrix = vec![
            vec![0.0, 2.0, 1.0],
            vec![1.0, -1.0, 3.0],
            vec![4.0, 1.0, 1.0],
        ];
        let inverse = inverse(&matrix).unwrap();
        for (number, row) in matrix.iter().enumerate() {
            for column in 0..3 {
                let pairs = row.iter().zip(&inverse);
                let product: f64 = pairs.map(|(entry, other)| entry * other[column]).sum();
                let expected = f64::from(u8::from(number == column));
                assert!((product - expected).abs() < 1e-12);
            }
        }
        assert_eq!(
            solve(vec![vec![1.0, 2.0], vec![2.0, 4.0]], vec![1.0, 2.0]),
            None
        );
    }
}
