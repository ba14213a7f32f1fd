#include "instances.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>

namespace kiln::cli {
namespace {

constexpr int kLatencyCores = 4;

std::string nodes_text(const std::vector<Processor>& processors) {
  std::set<int> nodes;
  for (const Processor& processor : processors) nodes.insert(processor.node);
  return ranges_text({nodes.begin(), nodes.end()});
}

Result<std::vector<Processor>> on_nodes(const std::vector<Processor>& processors, const std::vector<int>& nodes) {
  if (nodes.empty()) return processors;
  std::vector<Processor> out;
  for (const int node : std::set<int>(nodes.begin(), nodes.end())) {
    const size_t before = out.size();
    std::ranges::copy_if(processors, std::back_inserter(out), [&](const Processor& p) { return p.node == node; });
    if (out.size() > before) continue;
    return invalid_argument("exec: memory node " + std::to_string(node) +
                            " has no processor that this process may run on; there are nodes " +
                            nodes_text(processors));
  }
  return out;
}

// The first hardware thread of each core, neighbours together.
std::vector<Processor> of_cores(std::vector<Processor> processors, bool all_hardware_threads) {
  std::ranges::sort(processors, {}, [](const Processor& p) { return std::tuple(p.node, p.core, p.number); });
  if (all_hardware_threads) return processors;
  const auto same_core = [](const Processor& a, const Processor& b) { return a.node == b.node && a.core == b.core; };
  processors.erase(std::unique(processors.begin(), processors.end(), same_core), processors.end());
  return processors;
}

Instance instance_of(std::span<const Processor> processors) {
  Instance out;
  for (const Processor& processor : processors) out.processors.push_back(processor.number);
  const int node = processors.front().node;
  if (std::ranges::all_of(processors, [&](const Processor& p) { return p.node == node; })) out.node = node;
  return out;
}

// As many instances of so many cores as the nodes have each, then those across them.
std::vector<Instance> share(const std::vector<Processor>& cores, size_t instances, size_t each) {
  std::map<int, std::vector<Processor>> by_node;
  for (const Processor& core : cores) by_node[core.node].push_back(core);
  std::vector<Instance> out;
  std::vector<Processor> left;
  for (const auto& [node, here] : by_node) {
    size_t at = 0;
    for (; out.size() < instances && at + each <= here.size(); at += each) {
      out.push_back(instance_of(std::span(here).subspan(at, each)));
    }
    left.insert(left.end(), here.begin() + static_cast<std::ptrdiff_t>(at), here.end());
  }
  for (size_t at = 0; out.size() < instances && at + each <= left.size(); at += each) {
    out.push_back(instance_of(std::span(left).subspan(at, each)));
  }
  return out;
}

std::vector<Instance> one_a_node(const std::vector<Processor>& cores) {
  std::map<int, std::vector<Processor>> by_node;
  for (const Processor& core : cores) by_node[core.node].push_back(core);
  std::vector<Instance> out;
  for (const auto& [node, here] : by_node) out.push_back(instance_of(here));
  return out;
}

}  // namespace

Result<std::vector<Instance>> plan_instances(std::vector<Processor> processors, const InstanceWish& wish) {
  auto chosen = on_nodes(processors, wish.nodes);
  if (!chosen) return chosen.error();
  const std::vector<Processor> cores = of_cores(std::move(*chosen), wish.all_hardware_threads);
  const int all = static_cast<int>(cores.size());
  if (wish.aim == Aim::kThroughput && wish.instances == 0 && wish.cores_per_instance == 0) return one_a_node(cores);
  int each = wish.cores_per_instance, instances = wish.instances;
  if (each == 0 && wish.aim == Aim::kLatency) each = std::min(kLatencyCores, all);
  if (instances == 0) instances = each == 0 ? 1 : std::max(all / each, 1);
  if (each == 0) each = std::max(all / instances, 1);
  // Not their product, which may be no int.
  if (each > all || instances > all / each) {
    return invalid_argument("exec: " + std::to_string(instances) + " instances of " + std::to_string(each) +
                            " cores each are more than the " + std::to_string(all) + " that there are" +
                            (wish.all_hardware_threads ? "" : "; --hardware-threads counts each core's threads"));
  }
  return share(cores, static_cast<size_t>(instances), static_cast<size_t>(each));
}

std::string ranges_text(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) out += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace kiln::cli
