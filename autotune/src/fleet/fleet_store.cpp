#include "fleet/fleet_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <random>

#include "fleet/fleet_lines.h"
#include "records/records_lines.h"

namespace kiln::autotune {
namespace {

using redis::Reply;

const std::string kPrefix = "kiln:tune:1:", kGroup = "workers";
// A batch whose asker was not heard of for so long goes.
const std::string kBatchLife = "3600";
const std::string kMaxDead = "1000";
constexpr size_t kMaxText = 32u << 20;  // of an order, an outcome, a record

std::string stream_name(const std::string& batch) { return kPrefix + "batch:" + batch; }
std::string done_name(const std::string& batch) { return stream_name(batch) + ":done"; }
std::string taken_name(const std::string& batch) { return stream_name(batch) + ":taken"; }
std::string order_name(const std::string& batch, size_t number) {
  return stream_name(batch) + ":" + std::to_string(number);
}
std::string delivery_name(size_t number, int delivery) {
  return std::to_string(number) + ":" + std::to_string(delivery);
}

std::string in_milliseconds(Seconds time) { return std::to_string(static_cast<int64_t>(time.count() * 1000)); }

std::optional<size_t> parse_number(const std::string& text) {
  size_t out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

// The item of a list, or nothing.
const Reply& at(const Reply& reply, size_t index) {
  static const Reply nothing;
  return index < reply.items.size() ? reply.items[index] : nothing;
}

}  // namespace

std::string random_hex() {
  std::random_device random;
  char out[17];
  std::snprintf(out, sizeof out, "%08x%08x", random(), random());
  return out;
}

std::string fleet_worker_name() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(::getpid()) + ":" + random_hex().substr(0, 8);
}

FleetStore::FleetStore(const FleetOptions& options)
    : options_(options),
      worker_(options.worker.empty() ? fleet_worker_name() : options.worker),
      sealer_(options.access.key),
      link_(*redis::parse_address(options.access.url), options.access) {}

Result<Reply> FleetStore::ask(std::vector<std::string> words) {
  auto answer = link_.ask(words);
  if (answer) return std::move(answer.reply);
  const bool missing = answer.detail.starts_with("NOGROUP");
  const std::string what =
      answer.failure == redis::Failure::kServer ? "it answers" : std::string(to_string(*answer.failure));
  return error(missing ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
               options_.access.url + ": " + what + ": " + answer.detail);
}

Result<void> FleetStore::ping() {
  auto answer = ask({"PING"});
  return answer ? Result<void>() : answer.error();
}

std::string FleetStore::open_name(const std::string& kind) const {
  return kPrefix + "open:" + sealer_.tag(kind + "\n" + options_.builder);
}
std::string FleetStore::records_name(const RecordKey& key) const {
  return kPrefix + "records:" + sealer_.tag(key.kernel + "\n" + key.hardware);
}

Result<std::string> FleetStore::seal(const std::string& name, const std::string& text) const {
  auto value = sealer_.seal(name, std::as_bytes(std::span(text)));
  if (!value) return value.error();
  return std::string(reinterpret_cast<const char*>(value->data()), value->size());
}

Result<std::string> FleetStore::unseal(const std::string& name, const std::string& value) const {
  auto text = sealer_.open(name, std::as_bytes(std::span(value)), kMaxText);
  if (!text) return error(text.error().code, name + ": " + text.error().message);
  return std::string(reinterpret_cast<const char*>(text->data()), text->size());
}

// ---- who asks

Result<void> FleetStore::open_batch(const std::string& batch, const std::string& kind,
                                    const std::vector<FleetJob>& jobs) {
  const std::string stream = stream_name(batch);
  if (auto done = ask({"DEL", stream, taken_name(batch)}); !done) return done.error();
  for (const FleetJob& job : jobs) {
    auto value = seal(order_name(batch, job.number), job.order);
    if (!value) return value.error();
    auto added = ask({"XADD", stream, "*", "job", std::to_string(job.number), "order", *value});
    if (!added) return added.error();
  }
  if (auto done = ask({"XGROUP", "CREATE", stream, kGroup, "0", "MKSTREAM"}); !done) return done.error();
  if (auto done = ask({"EXPIRE", stream, kBatchLife}); !done) return done.error();
  auto announced = ask({"SADD", open_name(kind), batch});
  return announced ? Result<void>() : announced.error();
}

Result<bool> FleetStore::renew_batch(const std::string& batch, const std::string& kind) {
  for (const std::string& name : {done_name(batch), taken_name(batch)}) {
    if (auto kept = ask({"EXPIRE", name, kBatchLife}); !kept) return kept.error();
  }
  auto there = ask({"EXPIRE", stream_name(batch), kBatchLife});
  if (!there) return there.error();
  auto announced = ask({"SISMEMBER", open_name(kind), batch});
  if (!announced) return announced.error();
  return there->integer == 1 && announced->integer == 1;
}

Result<void> FleetStore::close_batch(const std::string& batch, const std::string& kind) {
  if (auto done = ask({"SREM", open_name(kind), batch}); !done) return done.error();
  auto gone = ask({"DEL", stream_name(batch), done_name(batch), taken_name(batch)});
  return gone ? Result<void>() : gone.error();
}

Result<std::vector<size_t>> FleetStore::finished_jobs(const std::string& batch) {
  auto names = ask({"HKEYS", done_name(batch)});
  if (!names) return names.error();
  std::vector<size_t> out;
  for (const Reply& name : names->items) {
    if (auto number = parse_number(name.text)) out.push_back(*number);
  }
  return out;
}

Result<std::string> FleetStore::outcome(const std::string& batch, size_t number) {
  const std::string name = done_name(batch);
  auto value = ask({"HGET", name, std::to_string(number)});
  if (!value) return value.error();
  if (value->is_nil()) return error(ErrorCode::kNotFound, name + ": gone");
  return unseal(name + ":" + std::to_string(number), value->text);
}

// ---- who works

Result<std::optional<FleetClaim>> FleetStore::claim(const std::string& kind) {
  auto batches = ask({"SMEMBERS", open_name(kind)});
  if (!batches) return batches.error();
  std::vector<std::string> names;
  for (const Reply& batch : batches->items) names.push_back(batch.text);
  std::sort(names.begin(), names.end());
  for (const std::string& batch : names) {
    auto claim = claim_of(batch);
    if (claim && !*claim) continue;
    if (claim || claim.error().code != ErrorCode::kNotFound) return claim;
    // Its asker has been gone for long.
    if (auto done = ask({"SREM", open_name(kind), batch}); !done) return done.error();
  }
  return std::optional<FleetClaim>();
}

Result<std::optional<FleetClaim>> FleetStore::claim_of(const std::string& batch) {
  auto abandoned = take_over(batch);
  return abandoned && !*abandoned ? take_new(batch) : abandoned;
}

Result<std::optional<FleetClaim>> FleetStore::take_over(const std::string& batch) {
  const std::string stream = stream_name(batch);
  for (;;) {
    auto taken = ask({"XAUTOCLAIM", stream, kGroup, worker_, in_milliseconds(options_.lease), "0-0", "COUNT", "1"});
    if (!taken) return taken.error();
    const Reply& entries = at(*taken, 1);
    if (entries.items.empty()) return std::optional<FleetClaim>();
    const std::string entry = at(entries.items.front(), 0).text;
    auto pending = ask({"XPENDING", stream, kGroup, entry, entry, "1"});
    if (!pending) return pending.error();
    const int delivery = static_cast<int>(at(at(*pending, 0), 3).integer);
    auto claim = delivered(batch, entries.items.front(), delivery);
    if (!claim) return claim.error();
    if (delivery <= kFleetDeliveries) return std::optional(std::move(*claim));
    if (auto done = bury(*claim); !done) return done.error();
  }
}

Result<std::optional<FleetClaim>> FleetStore::take_new(const std::string& batch) {
  auto read = ask({"XREADGROUP", "GROUP", kGroup, worker_, "COUNT", "1", "STREAMS", stream_name(batch), ">"});
  if (!read) return read.error();
  const Reply& entries = at(at(*read, 0), 1);
  if (entries.items.empty()) return std::optional<FleetClaim>();
  auto claim = delivered(batch, entries.items.front(), 1);
  if (!claim) return claim.error();
  return std::optional(std::move(*claim));
}

Result<FleetClaim> FleetStore::delivered(const std::string& batch, const Reply& entry, int delivery) {
  FleetClaim out{.batch = batch, .entry = at(entry, 0).text, .delivery = delivery};
  const Reply& fields = at(entry, 1);
  const auto number = parse_number(at(fields, 1).text);
  if (!number) return invalid_argument(stream_name(batch) + ": " + out.entry + " is no job");
  out.number = *number;
  out.order = unseal(order_name(batch, out.number), at(fields, 3).text);
  // So that a job that is given up can say who had it.
  auto noted = ask({"HSET", taken_name(batch), delivery_name(out.number, delivery), worker_});
  if (!noted) return noted.error();
  return out;
}

Result<void> FleetStore::bury(const FleetClaim& claim) {
  std::vector<std::string> words = {"HMGET", taken_name(claim.batch)};
  for (int i = 1; i <= kFleetDeliveries; ++i) words.push_back(delivery_name(claim.number, i));
  auto had = ask(std::move(words));
  if (!had) return had.error();
  std::string workers;
  for (const Reply& worker : had->items) workers += (workers.empty() ? "" : ", ") + worker.text;
  auto buried = ask({"XADD", kPrefix + "dead", "MAXLEN", "~", kMaxDead, "*", "batch", claim.batch, "job",
                     std::to_string(claim.number), "workers", workers});
  if (!buried) return buried.error();
  auto done = finish(claim, outcome_of_dead_job(kFleetDeliveries, workers));
  return done ? Result<void>() : done.error();
}

Result<bool> FleetStore::renew(const FleetClaim& claim) {
  const std::string stream = stream_name(claim.batch);
  auto pending = ask({"XPENDING", stream, kGroup, claim.entry, claim.entry, "1"});
  if (!pending && pending.error().code == ErrorCode::kNotFound) return false;
  if (!pending) return pending.error();
  if (at(at(*pending, 0), 1).text != worker_) return false;
  auto kept = ask({"XCLAIM", stream, kGroup, worker_, "0", claim.entry, "JUSTID"});
  if (!kept) return kept.error();
  return true;
}

Result<bool> FleetStore::finish(const FleetClaim& claim, const std::string& outcome) {
  const std::string name = done_name(claim.batch);
  auto value = seal(name + ":" + std::to_string(claim.number), outcome);
  if (!value) return value.error();
  auto first = ask({"HSETNX", name, std::to_string(claim.number), *value});
  if (!first) return first.error();
  if (auto kept = ask({"EXPIRE", name, kBatchLife}); !kept) return kept.error();
  auto done = ask({"XACK", stream_name(claim.batch), kGroup, claim.entry});
  if (!done) return done.error();
  return first->integer == 1;
}

Result<void> FleetStore::give_back(const FleetClaim& claim) {
  auto done = ask({"XCLAIM", stream_name(claim.batch), kGroup, worker_, "0", claim.entry, "IDLE", "86400000",
                   "RETRYCOUNT", std::to_string(claim.delivery - 1), "JUSTID"});
  return done ? Result<void>() : done.error();
}

// ---- measurements

Result<std::vector<Record>> FleetStore::records(const RecordKey& key) {
  const std::string name = records_name(key), scope = scope_tag(key);
  std::vector<Record> out;
  std::string cursor = "0";
  do {
    auto part = ask({"HSCAN", name, cursor, "MATCH", scope + ":*", "COUNT", "500"});
    if (!part) return part.error();
    cursor = at(*part, 0).text;
    const std::vector<Reply>& pairs = at(*part, 1).items;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      // One that was changed on the way is measured again.
      auto line = unseal(name + ":" + pairs[i].text, pairs[i + 1].text);
      if (!line) continue;
      auto lines = parse_record_lines(*line, name);
      if (!lines) continue;
      for (Record& record : lines->records) {
        if (record.key == key) out.push_back(std::move(record));
      }
    }
  } while (cursor != "0" && !cursor.empty());
  return out;
}

Result<void> FleetStore::publish(const Record& record) {
  const std::string name = records_name(record.key);
  const std::string field = scope_tag(record.key) + ":" + to_string(record.config);
  auto value = seal(name + ":" + field, to_line(record));
  if (!value) return value.error();
  auto done = ask({"HSET", name, field, *value});
  return done ? Result<void>() : done.error();
}

}  // namespace kiln::autotune
