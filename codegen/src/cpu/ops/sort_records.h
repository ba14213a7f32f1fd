// Rows of sort and topk in scratch memory: each element as an int that orders as the element does, with its index.
//
// Keys of up to 32 bits share an i64 with their index, key above; keys of 64 bits have their indices in a tile of their
// own. A row is sorted by an internal function of the module: by a network where records are i64 and not too many
// (sort_network.h), else by digits (sort_function.h).
#pragma once

#include "cpu/nest/nest.h"
#include "elementwise/order_keys.h"

namespace kiln::codegen::cpu {

class SortRow {
 public:
  // Scratch for up to `capacity` records.
  SortRow(Context& ctx, ElementType element, int64_t capacity);

  // Keys (a vector, or a scalar) of elements `index`, `index` + 1, … into the row from record `at` on.
  void put(Value* at, Value* keys, Value* index);
  // The first `count` records into order, equal keys by index.
  void sort(Value* count);
  Value* index_of(Value* record);  // as i64
  Value* key_of(Value* record);    // as an int of the key's width

  llvm::Type* key_type() const { return key_type_; }

 private:
  Value* place(const ScratchSlot& slot, llvm::Type* type, Value* index);
  bool shared() const { return key_bytes_ <= 4; }
  bool by_network() const;

  Context& ctx;
  Builder& ir;
  int key_bytes_;
  int64_t capacity_;
  llvm::Type* key_type_;
  ScratchSlot keys_, spare_keys_, indices_, spare_indices_, counts_;
};

}  // namespace kiln::codegen::cpu
