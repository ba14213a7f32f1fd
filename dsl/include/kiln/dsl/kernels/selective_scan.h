// Mamba's selective scan (Gu, Dao 2023) and its gradient.
//
//   h[t] = e^(rate[t]·a)·h[t-1] + rate[t]·b[t]·u[t]      [D, STATES], of each sequence
//   y[t] = Σ c[t]·h[t] + skip·u[t]                       [D]
//
// u, rate, y [batch, L, D]; a [D, STATES]; b, c [batch, L, STATES]; skip [D]. A program has BD channels of a sequence.
// The gradient goes back in chunks of CHUNK places: the states in front of each chunk are kept by the forward pass, and
// those inside are computed again, a chunk in one scan.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// Also `states` [batch, ⌈L/CHUNK⌉, D, STATES], h in front of places 0, CHUNK, 2·CHUNK, …
template <class T = f32>
const auto& selective_scan() {
  static const Kept def =
      kernel(
          "selective_scan",
          {"u", "rate", "a", "b", "c", "skip", "y", "states", "batch", "L", "D", "STATES=16", "CHUNK=16", "BD=64"},
          [](Ptr<const T> u, Ptr<const T> rate, Ptr<const f32> a, Ptr<const T> b, Ptr<const T> c, Ptr<const f32> skip,
             Ptr<T> y, Ptr<f32> states, i32 batch, i32 L, i32 D, Const STATES, Const CHUNK, Const BD) {
            grid(cdiv(D, BD), batch);
            const Value d = program_id(0) * BD, n = program_id(1), chunks = cdiv(L, CHUNK);
            const Value rates = tile(a, {D, STATES}).load({d, 0}, {BD, STATES});
            const Value through = tile(skip, {D}).load({d}, {BD});
            const Value row = cast(n, i64_t) * L;
            Var h = zeros(f32_t, {BD, STATES});
            for (Value t : range(0, L)) {
              if_(t % CHUNK == 0, [&] {
                const Value at = states + (cast(n, i64_t) * chunks + t / CHUNK) * D * STATES;
                tile(at, {D, STATES}).store({d, 0}, h);
              });
              const Value place = row + t;
              const Value in = load_f32(row_of(u, place, D, D), {d}, {BD});
              const Value step = load_f32(row_of(rate, place, D, D), {d}, {BD});
              const Value write = load_f32(row_of(b, place, STATES, STATES), {0}, {STATES});
              const Value read = load_f32(row_of(c, place, STATES, STATES), {0}, {STATES});
              h = exp(expand_dims(step, 1) * rates) * h + expand_dims(step * in, 1) * expand_dims(write, 0);
              const Value out = sum(h * expand_dims(read, 0), 1) + through * in;
              row_of(y, place, D, D).store({d}, cast(out, element_v<T>));
            }
          })
          .space({{"BD", {4, 8, 16, 32, 64, 128}}, {"num_warps", {1, 2, 4}}})
          .array("u", "batch*L*D")
          .array("rate", "batch*L*D")
          .array("a", "D*STATES")
          .array("b", "batch*L*STATES")
          .array("c", "batch*L*STATES")
          .array("skip", "D")
          .array("y", "batch*L*D")
          .array("states", "batch*div(L + CHUNK - 1, CHUNK)*D*STATES")
          .defaults("amd", {{"BD", 16}, {"num_warps", 2}})
          .defaults("cuda", {{"BD", 16}, {"num_warps", 2}});
  return *def;
}

// The gradients of all that the forward pass read, of `states` with the same STATES and CHUNK. Those of what several
// programs share are by program, to be added up: db and dc [⌈D/BD⌉, batch, L, STATES], da [batch, D, STATES], dskip
// [batch, D].
template <class T = f32>
const auto& selective_scan_backward() {
  static const Kept def =
      kernel(
          "selective_scan_backward",
          {"u",  "rate", "a",  "b",     "c",     "skip", "states", "dy",        "du",       "drate",
           "da", "db",   "dc", "dskip", "batch", "L",    "D",      "STATES=16", "CHUNK=16", "BD=16"},
          [](Ptr<const T> u, Ptr<const T> rate, Ptr<const f32> a, Ptr<const T> b, Ptr<const T> c, Ptr<const f32> skip,
             Ptr<const f32> states, Ptr<const T> dy, Ptr<T> du, Ptr<T> drate, Ptr<f32> da, Ptr<f32> db, Ptr<f32> dc,
             Ptr<f32> dskip, i32 batch, i32 L, i32 D, Const STATES, Const CHUNK, Const BD) {
            grid(cdiv(D, BD), batch);
            const Value d = program_id(0) * BD, n = program_id(1), chunks = cdiv(L, CHUNK);
            const Value rates = tile(a, {D, STATES}).load({d, 0}, {BD, STATES});
            const Value through = tile(skip, {D}).load({d}, {BD});
            const Value row = cast(n, i64_t) * L;
            const auto by_channel = [&](const Value& x, const Value& t) {  // [CHUNK, BD, 1]
              return expand_dims(load_f32(tile(x + row * D, {L, D}), {t, d}, {CHUNK, BD}), 2);
            };
            const auto by_state = [&](const Value& x, const Value& t) {  // [CHUNK, 1, STATES]
              return expand_dims(load_f32(tile(x + row * STATES, {L, STATES}), {t, 0}, {CHUNK, STATES}), 1);
            };
            // Of h → decay·h + more, one after the other.
            const auto then = [](auto l, auto r) { return std::array{l[0] * r[0], l[1] * r[0] + r[1]}; };
            Var carry = zeros(f32_t, {BD, STATES});  // what the places behind make of h
            Var sum_a = zeros(f32_t, {BD, STATES}), sum_skip = zeros(f32_t, {BD});
            for (Value i : range(0, chunks)) {
              const Value chunk = chunks - 1 - i, t = chunk * CHUNK;
              const Value in = by_channel(u, t), step = by_channel(rate, t), slope = by_channel(dy, t);
              const Value write = by_state(b, t), read = by_state(c, t);
              const Value matrix = expand_dims(rates, 0);
              const Value decay = exp(step * matrix), more = step * in * write;  // [CHUNK, BD, STATES]
              const auto [along, added] = scan({decay, more}, 0, then);
              const Value at = states + (cast(n, i64_t) * chunks + chunk) * D * STATES;
              const Value first = expand_dims(tile(at, {D, STATES}).load({d, 0}, {BD, STATES}), 0);
              const Value h = along * first + added;
              // Backwards a place decays by what the one behind it does; behind the last place that is 1, of 0.
              const Value behind = exp(by_channel(rate, t + 1) * matrix);
              const auto [back, came] = scan({behind, slope * read}, 0, then, {.reverse = true});
              const Value dh = back * expand_dims(carry, 0) + came;
              const Value kept = dh * (h - more);  // by the exponent
              const auto store_channels = [&](const Value& x, const Value& v) {
                tile(x + row * D, {L, D}).store({t, d}, cast(v, element_v<T>));
              };
              const auto store_states = [&](const Value& x, const Value& v) {
                const Value part = x + (cast(program_id(0), i64_t) * batch + n) * L * STATES;
                tile(part, {L, STATES}).store({t, 0}, v);
              };
              const Value weighted = sum(dh * write, 2);  // [CHUNK, BD]
              const auto flat = [&](const Value& x) { return reshape(x, {CHUNK, BD}); };
              store_channels(du, weighted * flat(step) + flat(slope) * through);
              store_channels(drate, weighted * flat(in) + sum(kept * matrix, 2));
              store_states(db, sum(dh * (step * in), 1));
              store_states(dc, sum(slope * h, 1));
              sum_a = sum_a + sum(kept * step, 0);
              sum_skip = sum_skip + sum(flat(slope) * flat(in), 0);
              // The chunk in front goes on with dh of the first place.
              const Value is_first = reshape(arange(0, CHUNK) == 0, {CHUNK, 1, 1});
              carry = sum(where(is_first, dh, 0.0f), 0);
            }
            tile(da + cast(n, i64_t) * D * STATES, {D, STATES}).store({d, 0}, sum_a);
            tile(dskip + cast(n, i64_t) * D, {D}).store({d}, sum_skip);
          })
          .space({{"BD", {4, 8, 16, 32}}, {"num_warps", {1, 2, 4, 8}}})
          .array("u", "batch*L*D")
          .array("rate", "batch*L*D")
          .array("a", "D*STATES")
          .array("b", "batch*L*STATES")
          .array("c", "batch*L*STATES")
          .array("skip", "D")
          .array("states", "batch*div(L + CHUNK - 1, CHUNK)*D*STATES")
          .array("dy", "batch*L*D")
          .array("du", "batch*L*D")
          .array("drate", "batch*L*D")
          .array("da", "batch*D*STATES")
          .array("db", "div(D + BD - 1, BD)*batch*L*STATES")
          .array("dc", "div(D + BD - 1, BD)*batch*L*STATES")
          .array("dskip", "batch*D")
          .defaults("amd", {{"BD", 4}, {"num_warps", 4}})
          .defaults("cuda", {{"BD", 4}, {"num_warps", 4}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels
