#include "gpu/layout/gf2.h"

#include <bit>
#include <cassert>

namespace kiln::codegen::gpu {

Bits multiply(const Columns& matrix, Bits vector) {
  Bits out = 0;
  for (; vector != 0; vector &= vector - 1) out ^= matrix[std::countr_zero(vector)];
  return out;
}

Columns multiply(const Columns& outer, const Columns& inner) {
  Columns out;
  for (Bits column : inner) out.push_back(multiply(outer, column));
  return out;
}

bool Span::insert(Bits vector) {
  assert(inserted_ < 64);
  Row row{vector, Bits{1} << inserted_++};
  for (const Row& other : rows_) {
    if (row.vector & std::bit_floor(other.vector)) row.vector ^= other.vector, row.made_of ^= other.made_of;
  }
  if (row.vector == 0) return false;
  const Bits highest = std::bit_floor(row.vector);
  for (Row& other : rows_) {
    if (other.vector & highest) other.vector ^= row.vector, other.made_of ^= row.made_of;
  }
  rows_.push_back(row);
  return true;
}

void Span::insert(const Columns& vectors) {
  for (Bits vector : vectors) insert(vector);
}

Bits Span::reduce(Bits vector) const {
  for (const Row& row : rows_) {
    if (vector & std::bit_floor(row.vector)) vector ^= row.vector;
  }
  return vector;
}

std::optional<Bits> Span::solve(Bits vector) const {
  Bits made_of = 0;
  for (const Row& row : rows_) {
    if (vector & std::bit_floor(row.vector)) vector ^= row.vector, made_of ^= row.made_of;
  }
  if (vector != 0) return std::nullopt;
  return made_of;
}

Columns kernel(const Columns& matrix) {
  Columns out;
  Span seen;
  for (size_t i = 0; i < matrix.size(); ++i) {
    if (const std::optional<Bits> others = seen.solve(matrix[i])) out.push_back(*others | Bits{1} << i);
    seen.insert(matrix[i]);
  }
  return out;
}

Columns intersection(const Columns& a, const Columns& b, const Columns& modulo) {
  const Span zero(modulo);
  const Columns independent_a = completion(modulo, a), independent_b = completion(modulo, b);
  Columns both;
  for (Bits vector : independent_a) both.push_back(zero.reduce(vector));
  for (Bits vector : independent_b) both.push_back(zero.reduce(vector));
  // Each relation between the two bases is a vector that both can make.
  const Bits of_a = independent_a.size() == 64 ? ~Bits{0} : (Bits{1} << independent_a.size()) - 1;
  Columns out;
  for (Bits relation : kernel(both)) out.push_back(multiply(independent_a, relation & of_a));
  return out;
}

Columns completion(const Columns& have, const Columns& candidates) {
  Span span(have);
  Columns out;
  for (Bits vector : candidates) {
    if (!span.contains(vector)) {
      span.insert(vector);
      out.push_back(vector);
    }
  }
  return out;
}

Columns unit_vectors(int bits) {
  Columns out;
  for (int i = 0; i < bits; ++i) out.push_back(Bits{1} << i);
  return out;
}

}  // namespace kiln::codegen::gpu
