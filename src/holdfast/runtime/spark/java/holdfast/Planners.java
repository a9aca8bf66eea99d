package holdfast;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The planners of the queries that run, by the name that their sources are given as an option. */
public class Planners {
    private static final Map PLANNERS = new ConcurrentHashMap();

    private final Planner planner;
    private long number = -1L;
    private String told;

    private Planners(Planner planner) {
        this.planner = planner;
    }

    public static void put(String name, Planner planner) {
        PLANNERS.put(name, new Planners(planner));
    }

    public static void remove(String name) {
        PLANNERS.remove(name);
    }

    /** One question per batch, however many inputs, branches and threads ask. */
    static String plan(String name, long number) {
        Planners found = (Planners) PLANNERS.get(name);
        if (found == null) throw new IllegalStateException("nobody plans for " + name);
        // A block, as this compiler makes private methods static: `synchronized` would lock the
        // class, and a unit that waits would keep out the one it waits for.
        synchronized (found) {
            if (found.number != number) {
                found.told = found.planner.plan(number);
                found.number = number;
            }
            return found.told;
        }
    }
}
