// What the names of a program stand for, and which of them show the same memory.
//
// A graph has no memory that is written to. A call that writes in place gives its tensor a new value; where that is a
// view of another one, the other gets a new value too, with the view's in its place, and views of it that are read
// later are made again by their calls. Whether a `reshape` is a view hangs on strides, which graphs do not have: what
// was written through such a one, and is read by another name, is an error.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "kiln/dsl/result.h"
#include "kiln/graph/aten.h"
#include "kiln/graph/tensor.h"

namespace kiln::graph::aten {

// A tensor, or an int that is known when the graph runs.
using Value = std::variant<Tensor, Dim>;

// Names are borrowed from the program.
class Values {
 public:
  // How a view is made of another value for what it shows. None after an error, which is reported.
  using MakeView = std::function<std::optional<Tensor>(const Tensor& shown)>;

  void define(std::string_view name, Value value);
  // `perhaps`: a copy or a view.
  void define_view(std::string_view name, const Tensor& value, std::string_view of, MakeView make, bool perhaps);
  // Another name of what `of` stands for.
  void define_same(std::string_view name, std::string_view of);
  // Writes in place; of a name that there is. An error where what it shows is not known.
  Result<void> write(std::string_view name, const Tensor& value);
  // The value now. Errors: no such name, or its memory was perhaps written through another name.
  Result<Value> read(std::string_view name);

 private:
  struct Entry {
    Value value;
    std::string_view name;
    Entry* shows = nullptr;  // what it is a view of
    MakeView make;
    bool perhaps = false;
    bool doubtful = false;  // perhaps written through a view that is perhaps a copy
    uint64_t version = 0;
    uint64_t seen = 0;     // version of what it shows
    uint64_t checked = 0;  // writes_ when it was brought up to date
  };
  Result<void> refresh(Entry& entry);
  Result<void> write_entry(Entry& entry, const Tensor& value);
  Entry& add(std::string_view name, Value value);

  std::deque<Entry> entries_;
  std::unordered_map<std::string_view, Entry*> by_name_;
  uint64_t writes_ = 0;
};

}  // namespace kiln::graph::aten
