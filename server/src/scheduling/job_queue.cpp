// Round-robin between clients, in two classes, with an eye on who has waited longest.
#include "scheduling/job_queue.h"

namespace kiln::server {
namespace {

constexpr size_t kManyLeft = 1024;

}  // namespace

void JobQueue::Class::push(const JobPtr& job, bool front) {
  auto [it, added] = by_client.try_emplace(job->client);
  if (added) {
    front ? fresh.push_front(job->client) : fresh.push_back(job->client);
  }
  front ? it->second.push_front(job) : it->second.push_back(job);
  front ? arrivals.push_front(job) : arrivals.push_back(job);
}

JobPtr JobQueue::Class::front() {
  for (std::deque<uint64_t>* line : {&fresh, &turns}) {
    while (!line->empty()) {
      auto it = by_client.find(line->front());
      while (!it->second.empty() && it->second.front()->state != Job::State::kQueued) it->second.pop_front();
      if (!it->second.empty()) return it->second.front();
      by_client.erase(it);
      line->pop_front();
    }
  }
  return nullptr;
}

void JobQueue::Class::pop_front() {
  std::deque<uint64_t>& line = fresh.empty() ? turns : fresh;
  const uint64_t client = line.front();
  line.pop_front();
  by_client[client].pop_front();
  turns.push_back(client);
}

JobPtr JobQueue::Class::oldest() {
  while (!arrivals.empty() && arrivals.front()->state != Job::State::kQueued) arrivals.pop_front();
  return arrivals.empty() ? nullptr : arrivals.front();
}

JobPtr JobQueue::Class::next() { return passed_over < kMostPassedOver ? front() : oldest(); }

// One that is taken before its client's turn comes keeps its place there, and is skipped.
void JobQueue::Class::take(const JobPtr& job) {
  passed_over = job == oldest() ? 0 : passed_over + 1;
  if (job == front()) pop_front();
}

void JobQueue::Class::sweep() {
  std::erase_if(arrivals, [](const JobPtr& job) { return job->state != Job::State::kQueued; });
  for (auto& [client, jobs] : by_client) {
    std::erase_if(jobs, [](const JobPtr& job) { return job->state != Job::State::kQueued; });
  }
  auto has_nothing = [&](uint64_t client) { return by_client[client].empty(); };
  std::erase_if(fresh, has_nothing);
  std::erase_if(turns, has_nothing);
  std::erase_if(by_client, [](const auto& item) { return item.second.empty(); });
}

void JobQueue::add(const JobPtr& job, bool front) {
  const bool is_interactive = job->priority == wire::Priority::kInteractive;
  ++size_;
  interactive_size_ += is_interactive;
  jobs_.take(job->client, 1);
  bytes_.take(job->client, job->body->size());
  (is_interactive ? interactive_ : background_).push(job, front);
}

void JobQueue::push(const JobPtr& job) { add(job, false); }
void JobQueue::push_again(const JobPtr& job) { add(job, true); }

void JobQueue::promote(const JobPtr& job) {
  // Its place in the other class is skipped once it has run.
  const bool is_new = job->priority != wire::Priority::kInteractive;
  job->priority = wire::Priority::kInteractive;
  if (job->state != Job::State::kQueued) return;
  interactive_size_ += is_new;
  interactive_.push(job, false);
}

size_t JobQueue::size(wire::Priority priority) const {
  return priority == wire::Priority::kInteractive ? interactive_size_ : size_ - interactive_size_;
}

void JobQueue::subtract(const Job& job) {
  --size_;
  interactive_size_ -= job.priority == wire::Priority::kInteractive;
  jobs_.give_back(job.client, 1);
  bytes_.give_back(job.client, job.body->size());
}

void JobQueue::dropped(const Job& job) {
  subtract(job);
  if (++left_ < kManyLeft + size_) return;
  left_ = 0;
  interactive_.sweep();
  background_.sweep();
}

JobPtr JobQueue::pop(TimePoint now, bool with_background) {
  const JobPtr interactive = interactive_.next(), old = with_background ? background_.oldest() : nullptr;
  const bool overtakes = interactive && old && old->queued_at + ageing_ <= now && !overtook_;
  if (interactive) overtook_ = overtakes;
  if (!interactive && !old) return nullptr;
  Class& from = interactive && !overtakes ? interactive_ : background_;
  const JobPtr job = overtakes ? old : from.next();
  from.take(job);
  subtract(*job);
  return job;
}

}  // namespace kiln::server
