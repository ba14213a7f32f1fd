#include "aten/import/values.h"

#include "aten/import/promote.h"

namespace kiln::graph::aten {
namespace {

// `base` with what a view shows of it in new elements: the view of the elements' numbers says where they go.
Tensor written_through(const Tensor& base, const Values::MakeView& make, const Tensor& elements) {
  const Dim count = product(base.shape());
  const auto places = make(reshape(iota(i64, {count}, 0), base.shape()));
  if (!places) return {};
  return reshape(index_put(reshape(base, {count}), {*places}, {0}, elements), base.shape());
}

std::string doubt(std::string_view name, std::string_view other) {
  return "`" + std::string(name) + "` and `" + std::string(other) +
         "` are perhaps one memory, by strides that graphs do not have; one was written, and the other is read. Clone "
         "one of them first";
}

}  // namespace

Values::Entry& Values::add(std::string_view name, Value value) {
  Entry& out = entries_.emplace_back();
  out.value = std::move(value);
  out.name = name;
  out.checked = writes_;
  by_name_[name] = &out;
  return out;
}

void Values::define(std::string_view name, Value value) { add(name, std::move(value)); }

void Values::define_view(std::string_view name, const Tensor& value, std::string_view of, MakeView make, bool perhaps) {
  const auto shown = by_name_.find(of);
  Entry* shows = shown == by_name_.end() ? nullptr : shown->second;
  Entry& out = add(name, value);
  if (!shows) return;
  out.shows = shows;
  out.make = std::move(make);
  out.perhaps = perhaps;
  out.seen = shows->version;
}

void Values::define_same(std::string_view name, std::string_view of) {
  const auto found = by_name_.find(of);
  if (found != by_name_.end()) by_name_[name] = found->second;
}

Result<void> Values::refresh(Entry& entry) {
  if (entry.checked == writes_) return {};
  if (entry.doubtful) return invalid_argument(doubt(entry.name, "a view of it"));
  if (entry.shows) {
    if (auto fresh = refresh(*entry.shows); !fresh) return fresh;
    if (entry.shows->version != entry.seen) {
      if (entry.perhaps) return invalid_argument(doubt(entry.name, entry.shows->name));
      entry.value = entry.make(std::get<Tensor>(entry.shows->value)).value_or(Tensor());
      entry.seen = entry.shows->version;
      ++entry.version;
    }
  }
  entry.checked = writes_;
  return {};
}

Result<void> Values::write_entry(Entry& entry, const Tensor& value) {
  if (auto fresh = refresh(entry); !fresh) return fresh;
  if (entry.shows && entry.perhaps) {
    for (Entry* each = entry.shows; each; each = each->shows) each->doubtful = true;
    entry.shows = nullptr;
  }
  if (entry.shows) {
    const Tensor base = std::get<Tensor>(entry.shows->value);
    if (auto done = write_entry(*entry.shows, written_through(base, entry.make, value)); !done) return done;
    entry.seen = entry.shows->version;
  }
  entry.value = value;
  ++entry.version;
  return {};
}

Result<void> Values::write(std::string_view name, const Tensor& value) {
  Entry& entry = *by_name_.at(name);
  auto done = write_entry(entry, value);
  ++writes_;
  entry.checked = writes_;
  return done;
}

Result<Value> Values::read(std::string_view name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return invalid_argument("no call in front gives the tensor `" + std::string(name) + "`");
  if (auto fresh = refresh(*found->second); !fresh) return fresh.error();
  return found->second->value;
}

}  // namespace kiln::graph::aten
