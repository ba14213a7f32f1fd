// What the tests of numbers share: operands to try, comparison of columns, correct rounding by another road.
#pragma once

#include <bit>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "reference/dyadic.h"
#include "run.h"

namespace kiln::oracle {

using Binary = std::function<Bits(Type, Bits, Bits)>;

// Two operands each.
struct Pairs {
  Column a, b;
  void add(Bits x, Bits y) {
    a.push_back(x);
    b.push_back(y);
  }
};

// 8 bits: all pairs. 16 bits: every a with 64 values of b (floats) or 16 (ints), all specials among them. Wider:
// specials with specials and with random elements, pairs of random bits, and floats of near exponents or equal but for
// some bits, for cancellation.
const Pairs& pairs(Type type);
// One in 17 of those of 16 bits, still every a, for ops that choose or compare or resemble another.
const Pairs& fewer_pairs(Type type);

// One operand: all values up to 16 bits, else specials, random bits and random elements.
Column values(Type type, int64_t random = 4096);

// Bits equal, any NaN equal to any; `any_zero`: zeros of either sign too. The first disagreements are printed with
// their operands.
void expect_same(const std::string& what, Type result, const Column& got, const Column& want,
                 const std::vector<Type>& types, const std::vector<Column>& operands, bool any_zero = false);

// A binary op with one element type for operands and result, over pairs(type).
void expect_binary(const std::string& op, Type type, const Binary& reference, bool any_zero = false);
void expect_binary(const std::string& op, Type type, Type result, const Pairs& operands, const Binary& reference,
                   bool any_zero = false);

// Results rounded once from a binary128 that is itself exact or sticky, so correct without the host's f32 and f64
// arithmetic; f32 and f64 only.
enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kDiv };
Bits rounded_once(Arithmetic op, Type type, Bits a, Bits b);
Bits rounded_fma(Type type, Bits a, Bits b, Bits c);

inline Bits from_float(float value) { return std::bit_cast<uint32_t>(value); }
inline Bits from_double(double value) { return std::bit_cast<uint64_t>(value); }

}  // namespace kiln::oracle
