// Loads, stores and atomics through pointers, and arrays in memory that are read and written in blocks.
//
// Lanes whose mask is false touch no memory. Masks and values broadcast to the shape of the pointers; numbers take the
// pointers' element type, all else must have it.
#pragma once

#include "kiln/dsl/value.h"

namespace kiln::dsl::lang {

using dsl::AtomicKind;
using dsl::CacheHint;
using dsl::Eviction;
using dsl::Fill;
using dsl::MemoryOrder;
using dsl::MemoryScope;

// --- through pointers ---
struct LoadOptions {
  Operand mask = {};
  Operand other = {};  // what masked-off lanes give; 0 if absent
  CacheHint cache = CacheHint::kAll;
  Eviction eviction = Eviction::kNormal;
};
struct StoreOptions {
  Operand mask = {};
  CacheHint cache = CacheHint::kAll;
};
Value load(Operand pointer, LoadOptions options = {});
// Two lanes at one address: one of the values.
void store(Operand pointer, Operand value, StoreOptions options = {});

// Each gives what was in memory; 0 where the mask is false. Lanes that share an address all take effect.
struct AtomicOptions {
  Operand mask = {};
  MemoryOrder order = MemoryOrder::kAcqRel;
  MemoryScope scope = MemoryScope::kDevice;
};
Value atomic_add(Operand pointer, Operand value, AtomicOptions options = {});
Value atomic_min(Operand pointer, Operand value, AtomicOptions options = {});
Value atomic_max(Operand pointer, Operand value, AtomicOptions options = {});
Value atomic_and(Operand pointer, Operand value, AtomicOptions options = {});
Value atomic_or(Operand pointer, Operand value, AtomicOptions options = {});
Value atomic_xor(Operand pointer, Operand value, AtomicOptions options = {});
Value atomic_xchg(Operand pointer, Operand value, AtomicOptions options = {});
// Writes the value where memory holds the bits of `expected`.
Value atomic_cas(Operand pointer, Operand expected, Operand value, AtomicOptions options = {});

// The pointer, a parameter of the kernel, may overlap other pointer parameters; without it they are taken not to.
void may_alias(Operand pointer);

// --- tiles of an array in memory ---
struct TileOptions {
  Operand other = {};  // what lanes outside the extents give; 0 if absent
};

// An array of rank 1 to 3 behind a pointer. Loads give `other` outside the extents, stores write nothing there; offsets
// must not be negative. Addresses are computed in i64.
class Tile {
 public:
  Tile(Operand base, std::vector<Operand> extents, std::vector<Operand> strides, SourceLocation loc);
  Value load(std::vector<Operand> offsets, Shape block, TileOptions options = {},
             SourceLocation loc = SourceLocation::current()) const;
  void store(std::vector<Operand> offsets, Operand value, SourceLocation loc = SourceLocation::current()) const;

 private:
  struct Lanes {
    Value pointer, mask;
  };
  void set_strides(const std::vector<Operand>& strides);
  Lanes lanes(const std::vector<Operand>& offsets, const Shape& block, SourceLocation loc) const;

  Value base_;
  std::vector<Operand> extents_;
  std::vector<Value> strides_;  // i64; the last one is absent (invalid) where it is 1
  bool valid_ = false;
};
// Without strides the array is contiguous, the last axis fastest.
Tile tile(Operand base, std::vector<Operand> extents, std::vector<Operand> strides = {},
          SourceLocation loc = SourceLocation::current());

// --- described arrays ---
// An array of rank 1 to 5 that is read and written in blocks of one shape; targets with hardware for it use it. Outside
// of the extents loads give the fill and writes are dropped; offsets may be negative.
class Descriptor {
 public:
  Descriptor(Value descriptor, Shape block) : descriptor_(descriptor), block_(std::move(block)) {}

  Value load(std::vector<Operand> offsets, SourceLocation loc = SourceLocation::current()) const;
  void store(std::vector<Operand> offsets, Operand value, SourceLocation loc = SourceLocation::current()) const;
  // Combines the value into memory, each element in one step: kAdd, kMin, kMax, kAnd, kOr or kXor.
  void reduce(AtomicKind kind, std::vector<Operand> offsets, Operand value,
              SourceLocation loc = SourceLocation::current()) const;
  // Rows by number, from a column on; of an array of rank 2 with blocks of one row.
  Value gather_rows(Operand rows, Operand column) const;

 private:
  void write(OpCode code, const std::vector<Operand>& offsets, const Operand& value, std::vector<Attr> attrs,
             const SourceLocation& loc) const;

  Value descriptor_;
  Shape block_;
};
// As many strides as extents, the last of them 1; none: contiguous, the last axis fastest.
Descriptor descriptor(Operand base, std::vector<Operand> extents, std::vector<Operand> strides, Shape block,
                      Fill fill = Fill::kZero, SourceLocation loc = SourceLocation::current());

}  // namespace kiln::dsl::lang
