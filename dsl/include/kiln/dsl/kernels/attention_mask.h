// Which keys a query sees, for the kernels of attention.
#pragma once

#include "kiln/dsl/kernels/blocks.h"

namespace kiln::dsl::lang::kernels {

// What the running maximum of scores begins with where a row may see no key of a block: below all scores, and finite.
inline constexpr float kNoScore = -1e30f;

// With CAUSAL = 1 the query at position i sees the keys up to i, with WINDOW > 0 only those less than WINDOW positions
// away. Blocks are of BM queries and of BN keys.
struct AttentionMask {
  Const CAUSAL, WINDOW, BM, BN;

  Const is_any() const { return CAUSAL != 0 || WINDOW != 0; }
  // Of the keys from its own position on a query sees this many.
  Const ahead() const { return (CAUSAL != 0) + (CAUSAL == 0) * WINDOW; }

  // Positions, which broadcast to the shape of the result.
  Value sees(const Value& query, const Value& key) const {
    return if_(
        WINDOW != 0, [&] { return (query - key < WINDOW) & (key - query < ahead()); }, [&] { return query >= key; });
  }
  // Whether a query of a block does not see a key of a block, by the first of each.
  Value is_edge(const Value& query, const Value& key) const {
    const Value is_ahead = key + BN > query + ahead();
    return if_(WINDOW != 0, [&] { return is_ahead | (key + WINDOW < query + BM); }, [&] { return is_ahead; });
  }

  // The blocks of keys that a block of queries sees, as their positions: from a multiple of BN on, up to `keys` at
  // most.
  Value first_key(const Value& query) const {
    return if_(WINDOW != 0, [&] { return max(query - (WINDOW - 1), 0) / BN * BN; }, [&] { return 0; });
  }
  Value end_key(const Value& query, const Value& keys) const {
    return if_(is_any(), [&] { return min(keys, query + (BM + ahead() - 1)); }, [&] { return keys; });
  }
  // The blocks of queries that see a block of keys.
  Value first_query(const Value& key) const {
    return if_(is_any(), [&] { return max(key - (ahead() - 1), 0) / BM * BM; }, [&] { return 0; });
  }
  Value end_query(const Value& key, const Value& queries) const {
    return if_(WINDOW != 0, [&] { return min(queries, key + (BN + WINDOW - 1)); }, [&] { return queries; });
  }
};

}  // namespace kiln::dsl::lang::kernels
