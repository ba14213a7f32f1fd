// Linear algebra over GF(2), the field of one bit: vectors are machine words, addition is xor, and a matrix is the list
// of its columns. All that layouts are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::codegen::gpu {

using Bits = uint64_t;              // a vector of up to 64 bits
using Columns = std::vector<Bits>;  // a matrix: what each unit vector goes to; at most 64

// Matrix times vector, and matrix times matrix.
Bits multiply(const Columns& matrix, Bits vector);
Columns multiply(const Columns& outer, const Columns& inner);

// The linear hull of vectors, which remembers how each of its members is made of them.
class Span {
 public:
  Span() = default;
  explicit Span(const Columns& vectors) { insert(vectors); }

  // Whether the vector was new, that is, no sum of those before.
  bool insert(Bits vector);
  void insert(const Columns& vectors);

  bool contains(Bits vector) const { return reduce(vector) == 0; }
  int rank() const { return static_cast<int>(rows_.size()); }
  // The same representative for all vectors that differ by a member; 0 for members.
  Bits reduce(Bits vector) const;
  // The set of inserted vectors (bit i: the i-th inserted) whose sum is `vector`. Only vectors that were new when they
  // came are used, so the first inserted are preferred.
  std::optional<Bits> solve(Bits vector) const;

 private:
  struct Row {
    Bits vector;  // its highest bit is in no other row
    Bits made_of;
  };
  std::vector<Row> rows_;
  int inserted_ = 0;
};

// A basis of the vectors that `matrix` takes to 0.
Columns kernel(const Columns& matrix);
// A basis of what lies in the hulls of both; of each hull modulo `modulo` where given.
Columns intersection(const Columns& a, const Columns& b, const Columns& modulo = {});
// Those of `candidates`, in order, that are new over `have` and over each other.
Columns completion(const Columns& have, const Columns& candidates);
// The unit vectors of a space of `bits` dimensions.
Columns unit_vectors(int bits);

}  // namespace kiln::codegen::gpu
