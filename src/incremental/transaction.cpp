// incremental/transaction.cpp — an undo log: rollback drops values and puts records back.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.hpp"
#include "incremental/core.hpp"

namespace cambium::incremental {

void Core::start_transaction(bool implied) {
  transaction_ = std::make_unique<Transaction>();
  transaction_->size = size();
  transaction_->heap = heap_;
  transaction_->free = free_;
  transaction_->counters = counters_;
  transaction_->stabilization = stabilization_;
  transaction_->invalid_nodes = invalid_nodes_;
  transaction_->implied = implied;
}

void Core::begin() {
  refuse_inside_a_function("begin");
  CAMBIUM_CHECK(!transaction_, "one transaction at a time");
  start_transaction(false);
  counters_ = {.nodes = counters_.nodes, .necessary = counters_.necessary};
}

void Core::commit() {
  refuse_inside_a_function("commit");
  CAMBIUM_CHECK(transaction_ != nullptr, "commit without begin, or after a function threw");
  CAMBIUM_CHECK(is_stable(), "commit before stabilize");
  transaction_.reset();
  if (invalid_nodes_ > 0) {
    collect();
  }
}

void Core::rollback() {
  refuse_inside_a_function("rollback");
  if (!transaction_) {
    return;
  }
  const std::unique_ptr<Transaction> log = std::move(transaction_);
  for (auto& [node, record] : log->before) {
    nodes_[static_cast<std::size_t>(node)] = std::move(record);
  }
  nodes_.resize(static_cast<std::size_t>(log->size));
  for (auto entry = log->memo_before.rbegin(); entry != log->memo_before.rend(); ++entry) {
    if (entry->second < 0) {
      memo_.erase(entry->first);
    } else {
      memo_[entry->first] = entry->second;
    }
  }
  heap_ = std::move(log->heap);
  lowest_ = 0;
  free_ = std::move(log->free);
  counters_ = log->counters;
  stabilization_ = log->stabilization;
  invalid_nodes_ = log->invalid_nodes;
}

void Core::set_memo(const Memo::key_type& key, std::int32_t node) {
  const auto found = memo_.find(key);
  if (transaction_) {
    transaction_->memo_before.emplace_back(key, found == memo_.end() ? -1 : found->second);
  }
  memo_[key] = node;
}

void Core::free_node(std::int32_t node) {
  nodes_[static_cast<std::size_t>(node)] = Record{};
  free_.push_back(node);
  --invalid_nodes_;
}

// Gives back the places of invalid nodes, after a commit: nothing asks for them again. Unnecessary
// nodes that stand on one fall with it first; an unnecessary bind only forgets its choice. Observed
// ones stay until they are unobserved.
void Core::collect() {
  for (bool found = true; found;) {
    found = false;
    for (std::int32_t node = 0; node < size(); ++node) {
      const Record& record = at(node);
      if (!record.alive || !record.valid || !has_invalid_child(record)) {
        continue;
      }
      if (record.kind == NodeKind::bind_main && at(record.partner).valid) {
        Record& main = touch(node);
        main.children.resize(1);
        touch(main.partner).recomputed_at = -1;
      } else {
        invalidate({node});
        found = true;
      }
    }
  }
  std::erase_if(memo_, [&](const auto& entry) { return !at(entry.second).valid; });
  for (std::int32_t node = 0; node < size(); ++node) {
    const Record& record = at(node);
    if (record.alive && !record.valid && record.observers == 0) {
      free_node(node);
    }
  }
}

}  // namespace cambium::incremental
