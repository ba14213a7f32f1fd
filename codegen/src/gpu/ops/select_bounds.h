// Up to where the records of a row are candidates to be the least of it (select.h).
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Rows of records, which are compared by words of 32 bits, the highest first; every thread has some of each row.
struct RecordRows {
  std::vector<std::vector<size_t>> registers;             // of each row
  int words;                                              // of a record
  std::function<Value*(int number, size_t reg)> word_of;  // a word of a record
  bool differ;                                            // no two of a row are alike
  int64_t wanted;                                         // the least ones of a row
  int64_t candidates;                                     // that there may be; more than the wanted
};

// By word and row: records that `wanted` ones of the row or more are up to, and not more than the candidates; where
// records may be alike, not more than the candidates are below.
Result<std::vector<Registers>> find_bounds(Context& ctx, const RecordRows& rows);

}  // namespace kiln::codegen::gpu
