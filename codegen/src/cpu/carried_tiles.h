// The tiles that a loop carries, by their numbers: which of the new ones are computed from which of the old ones.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

struct CarriedTile {
  ValueId next;                    // what it becomes
  std::optional<uint64_t> offset;  // of its place in scratch; a scalar has none
};

// As things are when it is made: values that are kept in scratch later read less.
class CarriedTiles {
 public:
  CarriedTiles(const Context& ctx, std::vector<CarriedTile> tiles);

  // A new tile that is computed from an old one.
  struct Reader {
    size_t tile;
    bool elementwise;  // its element i depends on the old tile through element i alone
  };
  llvm::ArrayRef<Reader> readers(size_t old) const { return readers_[old]; }

  // Those that one walk computes in place, a group for each walk: of one shape, each element of a new one depends on
  // that element alone of any old one, and no other carried tile wants an old one.
  std::vector<std::vector<size_t>> in_place_together() const;

 private:
  std::vector<size_t> largest_fitting(const std::vector<size_t>& group) const;
  std::vector<std::vector<size_t>> connected(const std::vector<size_t>& group) const;

  const Context& ctx_;
  std::vector<CarriedTile> tiles_;
  std::vector<llvm::SmallVector<Reader, 2>> readers_;  // by old tile
  std::vector<llvm::SmallVector<size_t, 2>> reads_;    // by new tile: old ones
};

}  // namespace kiln::codegen::cpu
