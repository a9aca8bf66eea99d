package holdfast;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;

/**
 * Where each of Hadoop's settings comes from, which nobody here asks for.
 *
 * Spark copies and serializes all settings twice in every batch that keeps state, and Hadoop
 * compresses the origin of each of its hundreds by itself: most of what that costs.
 */
public class Origins {
    private Origins() {}

    /** Keep the settings, forget their origins; whether this Hadoop notes them where it used to. */
    public static boolean forget(Configuration settings) {
        try {
            // The first look for a file system has all of them add settings, and everything is
            // read again, origins and all: so it is made now.
            FileSystem.getFileSystemClass("file", settings);
            settings.size(); // reads the files, if nobody has yet
            Field noted = Configuration.class.getDeclaredField("updatingResource");
            noted.setAccessible(true);
            ((Map) noted.get(settings)).clear();
            return true;
        } catch (NoSuchFieldException changed) {
            return false;
        } catch (IllegalAccessException refused) {
            return false;
        } catch (IOException missing) {
            return false;
        }
    }
}
