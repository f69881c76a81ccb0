// Thousands of random edits, commits and rollbacks on random graphs, against recomputation from
// nothing.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <set>

#include "base/error.hpp"
#include "incremental/graph.hpp"
#include "unit/incremental/snapshot.hpp"

namespace cambium::incremental {
namespace {

// A description of the graph that can be evaluated without it. Nodes name earlier nodes only.
struct Recipe {
  enum class Kind { variable, one, two, many, choose, grow } kind = Kind::variable;
  std::vector<std::size_t> inputs;
  int value = 0;     // of a variable
  int modulus = 97;  // small: cutoffs happen
};

// What the model knows of a whole graph; copied at begin, put back at rollback.
struct Model {
  std::vector<Recipe> recipes;
  std::vector<Node<int>> nodes;
  std::vector<Var<int>> variables;  // same index; unused places for derived nodes
  std::multiset<std::size_t> observed;
};

int combine(const std::vector<int>& values, int modulus) {
  int sum = 1;
  for (const int v : values) {
    sum = (sum * 31 + v) % modulus;
  }
  return sum;
}

int evaluate(const Model& model, std::size_t i) {
  const Recipe& recipe = model.recipes[i];
  const auto input = [&](std::size_t k) { return evaluate(model, recipe.inputs[k]); };
  switch (recipe.kind) {
    case Recipe::Kind::variable:
      return recipe.value;
    case Recipe::Kind::choose:
      return input(input(0) % 2 == 0 ? 1 : 2);
    case Recipe::Kind::grow: {
      int value = input(1);
      for (int n = input(0) % 4; n > 0; --n) {
        value = (value * 3 + n) % recipe.modulus;
      }
      return value;
    }
    default: {
      std::vector<int> values;
      for (std::size_t k = 0; k < recipe.inputs.size(); ++k) {
        values.push_back(input(k));
      }
      return combine(values, recipe.modulus);
    }
  }
}

class Player {
 public:
  explicit Player(unsigned seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) {
      add_variable();
    }
    for (int i = 0; i < 12; ++i) {
      add_derived();
    }
  }

  void play(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      const bool in_transaction = below(4) != 0;
      const Model before = model_;
      const std::string state = snapshot(graph_->core());
      if (in_transaction) {
        graph_->begin();
      }
      for (int edits = 1 + below(5); edits > 0; --edits) {
        edit();
        graph_->check_invariants();
      }
      const bool stop_early = in_transaction && below(6) == 0;
      if (!stop_early) {
        graph_->stabilize();
        graph_->check_invariants();
        compare();
      }
      if (in_transaction) {
        if (stop_early || below(2) == 0) {
          graph_->rollback();
          model_ = before;
          ASSERT_EQ(snapshot(graph_->core()), state);
        } else {
          graph_->commit();
        }
        graph_->check_invariants();
        compare();
      }
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }

 private:
  int below(int n) {
    return static_cast<int>(random_() % static_cast<unsigned>(n));
  }

  std::size_t any_node() {
    // Prefer late nodes: deep graphs.
    const int n = static_cast<int>(model_.nodes.size());
    return static_cast<std::size_t>(std::max(below(n), below(n)));
  }

  void add_variable() {
    const int value = below(50);
    model_.recipes.push_back({.kind = Recipe::Kind::variable, .inputs = {}, .value = value});
    const Var<int> variable = graph_->var(fmt::format("v{}", model_.nodes.size()), value);
    model_.variables.push_back(variable);
    model_.nodes.push_back(variable);
  }

  void add_derived() {
    Recipe recipe;
    const int pick = below(10);
    recipe.kind = pick < 2   ? Recipe::Kind::one
                  : pick < 5 ? Recipe::Kind::two
                  : pick < 6 ? Recipe::Kind::many
                  : pick < 8 ? Recipe::Kind::choose
                             : Recipe::Kind::grow;
    const int inputs = recipe.kind == Recipe::Kind::one      ? 1
                       : recipe.kind == Recipe::Kind::many   ? below(6)
                       : recipe.kind == Recipe::Kind::choose ? 3
                                                             : 2;
    for (int i = 0; i < inputs; ++i) {
      recipe.inputs.push_back(any_node());
    }
    recipe.modulus = below(2) == 0 ? 3 : 97;
    model_.nodes.push_back(build(recipe));
    model_.variables.emplace_back();
    model_.recipes.push_back(recipe);
  }

  Node<int> build(const Recipe& recipe) {
    Graph& graph = *graph_;
    const int modulus = recipe.modulus;
    const std::string label = fmt::format("d{}", model_.nodes.size());
    std::vector<Node<int>> in;
    for (const std::size_t i : recipe.inputs) {
      in.push_back(model_.nodes[i]);
    }
    switch (recipe.kind) {
      case Recipe::Kind::one:
        return graph.map(
            label, [modulus](int a) { return combine({a}, modulus); }, in[0]);
      case Recipe::Kind::two:
        return graph.map(
            label,
            [modulus](int a, int b) {
              return combine({a, b}, modulus);
            },
            in[0],
            in[1]);
      case Recipe::Kind::choose:
        return graph.bind(label, in[0], [in](int v) { return v % 2 == 0 ? in[1] : in[2]; });
      case Recipe::Kind::grow:
        return graph.bind(label, in[0], [&graph, in, modulus](int v) {
          Node<int> node = in[1];
          for (int n = v % 4; n > 0; --n) {
            node = graph.map(
                "inner", [n, modulus](int w) { return (w * 3 + n) % modulus; }, node);
          }
          return node;
        });
      default:
        return graph.map_all(
            label,
            [modulus](const std::vector<const int*>& all) {
              std::vector<int> values;
              for (const int* v : all) {
                values.push_back(*v);
              }
              return combine(values, modulus);
            },
            in);
    }
  }

  void edit() {
    const int pick = below(10);
    if (pick < 5) {
      std::size_t i = any_node();
      while (model_.recipes[i].kind != Recipe::Kind::variable) {
        --i;  // the first four are variables
      }
      model_.recipes[i].value = below(50);
      graph_->set(model_.variables[i], model_.recipes[i].value);
    } else if (pick < 7) {
      if (model_.nodes.size() < 80) {
        pick == 5 ? add_variable() : add_derived();
      }
    } else if (pick < 9 || model_.observed.empty()) {
      const std::size_t i = any_node();
      model_.observed.insert(i);
      graph_->observe(model_.nodes[i]);
    } else {
      const auto some =
          std::next(model_.observed.begin(), below(static_cast<int>(model_.observed.size())));
      graph_->unobserve(model_.nodes[*some]);
      model_.observed.erase(some);
    }
  }

  void compare() {
    if (!graph_->core().is_stable()) {
      return;  // rolled back to edits that were made before the transaction
    }
    for (const std::size_t i : model_.observed) {
      ASSERT_EQ(graph_->value(model_.nodes[i]), evaluate(model_, i)) << "node " << i;
    }
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>();
  Model model_;
};

TEST(RandomGraphs, AgreeWithRecomputationFromNothing) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Player(seed).play(60);
    if (HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace cambium::incremental
