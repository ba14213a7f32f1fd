// One function for each op of the table that can be generated.
#pragma once

#include "maker.h"

namespace kiln::random_kernel {

// Makes such an op in the region at hand; false where it did not come about.
using MakeFunction = bool (*)(Maker& maker, dsl::OpCode code);

struct Family {
  dsl::OpCode code;
  MakeFunction make;
};
const std::vector<Family>& families();

// elementwise.cpp
bool make_arithmetic(Maker& maker, dsl::OpCode code);  // add … abs
bool make_bits(Maker& maker, dsl::OpCode code);
bool make_compare(Maker& maker, dsl::OpCode code);
bool make_select(Maker& maker, dsl::OpCode code);
bool make_math(Maker& maker, dsl::OpCode code);
bool make_cast(Maker& maker, dsl::OpCode code);
bool make_bitcast(Maker& maker, dsl::OpCode code);
bool make_philox(Maker& maker, dsl::OpCode code);
// shape.cpp
bool make_scalar(Maker& maker, dsl::OpCode code);    // program_id, num_programs, constant, arange, splat
bool make_reshaped(Maker& maker, dsl::OpCode code);  // broadcast, expand_dims, reshape, permute
bool make_joined(Maker& maker, dsl::OpCode code);    // join, split, cat
bool make_part(Maker& maker, dsl::OpCode code);      // slice, gather
// memory.cpp, described.cpp
bool make_load(Maker& maker, dsl::OpCode code);  // addptr, load
bool make_store(Maker& maker, dsl::OpCode code);
bool make_atomic(Maker& maker, dsl::OpCode code);
bool make_described(Maker& maker, dsl::OpCode code);
// algebra.cpp, combine.cpp
bool make_dot(Maker& maker, dsl::OpCode code);
bool make_dot_scaled(Maker& maker, dsl::OpCode code);
bool make_order(Maker& maker, dsl::OpCode code);    // sort, topk, histogram
bool make_combine(Maker& maker, dsl::OpCode code);  // reduce, scan
// control.cpp
bool make_for(Maker& maker, dsl::OpCode code);
bool make_while(Maker& maker, dsl::OpCode code);
bool make_if(Maker& maker, dsl::OpCode code);
bool make_fact(Maker& maker, dsl::OpCode code);  // assume, require, assert, print

}  // namespace kiln::random_kernel
